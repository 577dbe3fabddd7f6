// Declares messages about ranks that fail, for every transport.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace plimsoll {

/// Data of a rank that the other ranks know.
struct RankPlace {
  int rank = 0;
  std::string host;   ///< empty: not known
  std::string place;  ///< its last note(); empty: none yet
};

/// Returns the message for a rank that called fail(): "rank 2 (host a) failed: WHY; it was at PLACE".
std::string failed_text(const RankPlace& rank, std::string_view why);
/// Returns the message for a rank whose process is gone: "rank 2 (host a) ended in PLACE".
std::string ended_text(const RankPlace& rank);
/// Returns the message for a rank without a sign of life: "rank 2 (host a) has not answered for 3 s; it was at PLACE".
std::string silent_text(const RankPlace& rank, std::chrono::milliseconds silence);
/// Returns the message for a rank that destroyed its exchange while others wait: "rank 2 (host a) has ended its run;
/// rank 0 waits for it at PLACE".
std::string finished_text(const RankPlace& rank, const RankPlace& waiting);

/// Throws UserError (failure) with the message.
[[noreturn]] void throw_failure(const std::string& message);

/// Returns the first `bytes` bytes of `text`, or fewer: it cuts between UTF-8 characters.
std::string_view cut_text(std::string_view text, size_t bytes);

/// Returns seconds without trailing zeros: "3 s", "0.5 s".
std::string seconds_text(std::chrono::milliseconds time);

/// Measures the time from the loss of a rank to the end of this one, for the thread that watches the others.
class LossTimer {
 public:
  /// Adds the time since the last call while another rank is lost (`lost`), or failed for a reason that this rank may
  /// find itself (`failed`).
  void add(std::chrono::milliseconds passed, bool lost, bool failed) {
    failed_ = failed ? failed_ + passed : std::chrono::milliseconds(0);
    lost_ = lost || failed_ >= std::chrono::seconds(2) ? lost_ + passed : std::chrono::milliseconds(0);
  }
  bool is_lost() const { return lost_ > std::chrono::milliseconds(0); }
  /// Returns true if this rank has had a second to notice the loss in an exchange.
  bool is_overdue() const { return lost_ >= std::chrono::seconds(1); }

 private:
  std::chrono::milliseconds failed_{0}, lost_{0};
};

/// Bytes of a note() that are kept.
constexpr size_t kMaxNote = 200;
/// Bytes of a fail() and of a fault's message that are kept.
constexpr size_t kMaxFault = 1000;

/// Returns the name of this host, at most 64 bytes.
std::string host_name();

}  // namespace plimsoll
