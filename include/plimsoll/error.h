// Declares the two kinds of error: mistakes of the user and bugs of Plimsoll. Tests assert the kind and the message.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace plimsoll {

/// A mistake of the user: a wrong key, a missing file, an operator that cannot be recorded. The message says what is
/// wrong, where (file, key, module, operator), what is allowed and what to do. The command line prints it unchanged,
/// without a stack trace. Exit codes: 2 (`Kind::usage`: the job file or the arguments), 1 (`failure`: a file, a disk, a
/// kernel), 3 (`does_not_fit`: only if that could not be known before the run).
class UserError : public std::runtime_error {
 public:
  /// The kind of a user's mistake; it decides the exit code.
  enum class Kind { usage, failure, does_not_fit };
  /// Makes an error with the whole message.
  explicit UserError(const std::string& message, Kind kind = Kind::usage) : std::runtime_error(message), kind_(kind) {}
  /// Returns the kind.
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

/// An error of allocation: another program uses memory that a plan counts on. It has its own type because planning
/// again for less memory is its only remedy.
class MemoryUnavailable : public UserError {
 public:
  /// Owner of the memory: the machine, or a device with memory of its own.
  enum class Owner : uint8_t { host, device };
  /// Makes an error with the message "`reason`; `advice`". `requested_bytes`: bytes that could not be allocated.
  MemoryUnavailable(const std::string& reason, int64_t requested_bytes,
                    const std::string& advice = "free memory, or give a lower memory_budget", Owner owner = Owner::host)
      : UserError(reason + "; " + advice, Kind::failure),
        reason_(reason),
        requested_bytes_(requested_bytes),
        owner_(owner) {}
  /// Makes an error with the usual advice.
  MemoryUnavailable(const std::string& reason, int64_t requested_bytes, Owner owner)
      : MemoryUnavailable(reason, requested_bytes, "free memory, or give a lower memory_budget", owner) {}
  /// Returns the owner of the memory.
  Owner owner() const { return owner_; }
  const std::string& reason() const { return reason_; }         ///< reason: the message without its advice
  int64_t requested_bytes() const { return requested_bytes_; }  ///< bytes that could not be allocated

 private:
  std::string reason_;
  int64_t requested_bytes_;
  Owner owner_;
};

/// An error of allocation on disk: the folder has less free space than a plan counts on.
class DiskUnavailable : public UserError {
 public:
  /// `available`: free bytes in `folder`; negative: the system does not report them. `why`: the system's message.
  DiskUnavailable(const std::string& folder, int64_t requested_bytes, int64_t available, const std::string& why)
      : UserError("'" + folder + "' has no room for " + std::to_string(requested_bytes) +
                      " bytes that are to lie on disk" +
                      (available < 0 ? "" : ", " + std::to_string(available) + " are free") + " (" + why +
                      "); make room, name another folder in disk_path, or give a lower disk_budget",
                  Kind::failure),
        requested_bytes_(requested_bytes),
        available_(available) {}
  int64_t requested_bytes() const { return requested_bytes_; }  ///< bytes that could not be allocated
  int64_t available() const { return available_; }              ///< free bytes; negative: not known

 private:
  int64_t requested_bytes_, available_;
};

/// A bug of Plimsoll: a broken contract between two of its parts. Never thrown for input that a user could have
/// written.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Throws InternalError with `what` unless `condition` holds.
inline void check(bool condition, const char* what) {
  if (!condition) throw InternalError(what);
}
/// Throws InternalError with `what` unless `condition` holds.
inline void check(bool condition, const std::string& what) {
  if (!condition) throw InternalError(what);
}

}  // namespace plimsoll
