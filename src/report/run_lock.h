// Declares the lock that lets one run at a time write to a folder or a file. The kernel holds the lock for the process,
// and a file names the holder.
#pragma once

#include <filesystem>
#include <string>

namespace plimsoll {

/// A lock that is held from the constructor to the destructor, at most as long as the process lives. The kernel's lock
/// (flock) on the lock file decides. The text in the file only names the holder: host, process id, since when. A file
/// that a killed run left behind is not locked, and does not block.
///
/// A network file system hands locks to its server and holds them against other machines too. If a file system refuses
/// locks, the text decides: a live run of this machine blocks. A run of another machine does not, because it is not
/// known to be alive.
class RunLock {
 public:
  /// `what` is the locked thing, for messages: "checkpoint.directory: run1". `file` is its lock file, which is created,
  /// and removed at the end. `job` is the job file that the text of the lock names. Throws UserError (usage) if another
  /// run holds the lock, and names that run. Throws UserError if the lock file can be neither created nor
  /// opened.
  RunLock(std::string what, std::filesystem::path file, const std::filesystem::path& job);
  ~RunLock();
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&&) = delete;

 private:
  bool open_and_lock();
  [[noreturn]] void refuse() const;
  void say_who(const std::filesystem::path& job) const;

  std::string what_;
  std::filesystem::path file_;
  int descriptor_ = -1;  ///< -1: nothing is held
};

}  // namespace plimsoll
