// Declares files that are whole or absent: written to a temporary file, synced, renamed. Finds the folder of results
// that are kept for later runs.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace plimsoll {

/// A file being written. Its bytes go to a hidden file next to the target (".NAME.UNIQUE.tmp": the same folder, because
/// rename is atomic only inside one file system) and take the target's name in commit(). Without commit() the
/// destructor removes them. A kill or a power loss can leave the hidden file behind; nothing ever reads it.
///
/// A target that exists keeps its permissions; a symbolic link is followed. A device or a pipe (/dev/stdout) has no
/// folder to be renamed in and is written directly.
///
/// All members throw FileError that names the target and the system's reason. The constructor throws usage if the path
/// is wrong: a missing folder, a folder in place of the file, no permission. All other errors are failures: no space,
/// an input/output error, and every error of write() and commit().
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends `bytes`. Throws InternalError after commit().
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  /// Syncs the bytes to the disk, gives them the target's name and syncs the folder: when it returns, the file survives
  /// a power loss. To be called once.
  void commit();

 private:
  [[noreturn]] void fail(int error) const;         ///< the file cannot be opened
  [[noreturn]] void fail_opened(int error) const;  ///< the file was opened, and its bytes cannot be written
  void open_aside();
  void sync_folder() const;

  std::filesystem::path path_;    ///< name that the caller passed, for messages
  std::filesystem::path target_;  ///< with symbolic links resolved
  std::filesystem::path aside_;   ///< empty: nothing to rename or remove
  int descriptor_ = -1;
};

/// Removes the hidden files of all AtomicFile objects that are not committed, for a process that ends without its
/// destructors. Their objects must not be used afterwards.
void remove_unfinished_files() noexcept;

/// Writes `contents` to `path` through an AtomicFile.
void write_file_atomically(const std::filesystem::path& path, std::string_view contents);

/// Returns $XDG_CACHE_HOME/plimsoll, or ~/.cache/plimsoll; empty if neither is an absolute path.
std::filesystem::path cache_folder();

}  // namespace plimsoll
