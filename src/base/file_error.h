// Implements errors about files, with one wording and one rule of kinds for errors of the system. Adds the job's key
// that names a file, and keeps messages from acting on a terminal.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/names.h"
#include "base/text.h"
#include "plimsoll/error.h"

namespace plimsoll {

/// Returns the first part of `path` that exists and is no folder although more follows; all of `path` if it is such a
/// file itself; an empty path if there is none.
inline std::filesystem::path file_in_place_of_folder(const std::filesystem::path& path) {
  std::filesystem::path part;
  for (const std::filesystem::path& each : path) {
    part /= each;
    std::error_code ignored;
    if (std::filesystem::exists(part, ignored) && !std::filesystem::is_directory(part, ignored)) return part;
  }
  return {};
}

/// An error of a file or a folder that cannot be opened, made, read or written.
class FileError : public UserError {
 public:
  using UserError::UserError;
};

/// Returns true for a failure and for any FileError: data.skip_bad leaves such files out, and reports wrong settings.
inline bool is_fault_of_file(const UserError& error) {
  return error.kind() == UserError::Kind::failure || dynamic_cast<const FileError*>(&error) != nullptr;
}

/// Returns the kind of an errno value for a path that the user named: usage if the path cannot be opened, made or
/// written for what it is; failure for the rest, such as a full disk or an input/output error.
inline UserError::Kind kind_of_file_error(int error) {
  switch (error) {
    case ENOENT:
    case EACCES:
    case EPERM:
    case EROFS:
    case EISDIR:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOTSUP:  // the size of a pipe
    case ENXIO:    // a socket is no file
      return UserError::Kind::usage;
    default:
      return UserError::Kind::failure;
  }
}

/// Throws FileError of `kind`: "cannot VERB PATH: REASON", with a hint if the reason has a usual remedy. `error` is an
/// errno value. The user did not name the path, or opened it with success before: `kind` is failure.
[[noreturn]] inline void throw_file_error(std::string_view verb, const std::filesystem::path& path, int error,
                                          UserError::Kind kind) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  std::string reason = std::generic_category().message(error);
  std::error_code ignored;
  if (error == ENOSPC || error == EDQUOT) reason += "; free some space or choose another folder";
  if (error == EACCES || error == EPERM || error == EROFS) reason += "; check the permissions";
  if (const std::filesystem::path file = error == ENOTDIR ? file_in_place_of_folder(path) : ""; !file.empty())
    reason = fmt::format("{} is a file; name a folder", file.string());
  if (error == EISDIR) reason = "it is a folder; name a file";
  if (error == EMFILE) reason += "; raise the number of files that a process may have open (ulimit -n)";
  if (error == ENOENT && !std::filesystem::exists(folder, ignored)) {
    reason = fmt::format("the folder {} does not exist; make it first or choose another", folder.string());
  } else if (error == ENOENT && verb == "read") {
    reason += nearest_file_advice(path);
  }
  throw FileError(without_controls(fmt::format("cannot {} {}: {}", verb, path.string(), reason)), kind);
}

/// Throws FileError of the kind of `error` for a path that the user named.
[[noreturn]] inline void throw_file_error(std::string_view verb, const std::filesystem::path& path, int error) {
  throw_file_error(verb, path, error, kind_of_file_error(error));
}

/// Throws FileError (usage) for a path that is a pipe, a socket or a device, where a file is read.
[[noreturn]] inline void throw_not_regular(const std::filesystem::path& path) {
  throw FileError(without_controls(fmt::format("cannot read {}: it is not a regular file", path.string())));
}

/// Throws FileError (failure) for a file that had `bytes` bytes and lost some of them while it was read.
[[noreturn]] inline void throw_lost_bytes(const std::filesystem::path& path, int64_t bytes) {
  throw FileError(
      without_controls(fmt::format("cannot read {}: it had {} bytes when it was opened, and has lost some of them "
                                   "while it was read; restore the file, and let no program write it meanwhile",
                                   path.string(), bytes)),
      UserError::Kind::failure);
}

/// Returns work(). A UserError that it throws gets the prefix "KEY: "; MemoryUnavailable passes unchanged.
template <typename Work>
auto of_key(std::string_view key, Work&& work) -> decltype(work()) {
  try {
    return std::forward<Work>(work)();
  } catch (const MemoryUnavailable&) {
    throw;
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", key, error.what()), error.kind());
  }
}

/// Returns work(). The message of a UserError passes through without_controls(), so that names and values from a file
/// reach no terminal as commands. Errors of a derived type pass as they are: their texts come from the system.
template <typename Work>
auto with_clean_errors(Work&& work) -> decltype(work()) {
  try {
    return std::forward<Work>(work)();
  } catch (const MemoryUnavailable&) {
    throw;
  } catch (const DiskUnavailable&) {
    throw;
  } catch (const UserError& error) {
    throw UserError(without_controls(error.what()), error.kind());
  }
}

}  // namespace plimsoll
