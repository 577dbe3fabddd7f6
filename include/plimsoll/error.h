// The two kinds of error. Tests assert which one a mistake gives and what it says.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace plimsoll {

/// The user's mistake: a wrong key, a missing file, an operator that cannot be recorded. The message says what is
/// wrong, where (file, key, module, operator), what is allowed and what to do. The command line prints it as it
/// is, without a stack trace, and exits with 2 (`Kind::usage`: the job file or the arguments), 1 (`failure`: a file, a
/// disk, a kernel) or 3 (`does_not_fit`: only where it could not be known before the run).
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

/// The machine does not have the memory now that a plan counts on: another program came first. A type of its own, since
/// a smaller plan mends it and nothing else does.
class MemoryUnavailable : public UserError {
 public:
  /// Whose memory: the machine's, or that of a device with its own.
  enum class Whose : uint8_t { host, device };
  /// Makes an error whose message is `fact` and `advice`; `asked`: bytes that could not be allocated.
  MemoryUnavailable(const std::string& fact, int64_t asked,
                    const std::string& advice = "free memory, or give a lower memory_budget", Whose whose = Whose::host)
      : UserError(fact + "; " + advice, Kind::failure), fact_(fact), asked_(asked), whose_(whose) {}
  /// Makes an error with the usual advice.
  MemoryUnavailable(const std::string& fact, int64_t asked, Whose whose)
      : MemoryUnavailable(fact, asked, "free memory, or give a lower memory_budget", whose) {}
  /// Returns the owner of the memory.
  Whose whose() const { return whose_; }
  const std::string& fact() const { return fact_; }  ///< the message without its advice
  int64_t asked() const { return asked_; }           ///< bytes that could not be had

 private:
  std::string fact_;
  int64_t asked_;
  Whose whose_;
};

/// The disk does not have the room that a plan counts on.
class DiskUnavailable : public UserError {
 public:
  /// `available` bytes are free where `folder` lies; negative: the system does not say. `why`: in the system's words.
  DiskUnavailable(const std::string& folder, int64_t asked, int64_t available, const std::string& why)
      : UserError("'" + folder + "' has no room for " + std::to_string(asked) + " bytes that are to lie on disk" +
                      (available < 0 ? "" : ", " + std::to_string(available) + " are free") + " (" + why +
                      "); make room, name another folder in disk_path, or give a lower disk_budget",
                  Kind::failure),
        asked_(asked),
        available_(available) {}
  int64_t asked() const { return asked_; }          ///< bytes
  int64_t available() const { return available_; }  ///< bytes, or negative

 private:
  int64_t asked_, available_;
};

/// Our bug: a broken promise between two parts of Plimsoll. Never raised for input that a user could have written.
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
