// One run at a time writes to a folder or a file: the kernel holds a lock for the process, and a file says whose it is.
#pragma once

#include <filesystem>
#include <string>

namespace plimsoll {

/// Held from the constructor to the destructor, and never longer than the process lives. The kernel's lock (flock) on
/// the lock file decides; the text in the file only says who holds it: host, process id, since when. A file that a
/// killed run left behind is not locked, and does not stand in the way.
///
/// A network file system hands locks to its server and holds them against other machines too. One that refuses them
/// altogether is left to the text: a run of this machine that is alive is in the way, one of another machine is not
/// known to be, and is not.
class RunLock {
 public:
  /// `what` is what is locked, for messages: "checkpoint.directory: run1"; `file` its lock file, which is made, and
  /// removed again in the end; `job` the job file that the holder shows. Throws UserError (usage) where another run
  /// holds it, with who that is, and UserError (failure) where the lock file can be neither made nor opened.
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
