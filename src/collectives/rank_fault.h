// Messages about ranks that fail. One place, so that every transport says the same.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace plimsoll {

/// A rank as the others see it.
struct RankPlace {
  int rank = 0;
  std::string host;   ///< empty: not known
  std::string place;  ///< its last note(); empty: none yet
};

/// The rank called fail(): "rank 2 (host a) failed: WHY; it was at PLACE".
std::string failed_text(const RankPlace& rank, std::string_view why);
/// The process of the rank is gone: "rank 2 (host a) ended in PLACE".
std::string ended_text(const RankPlace& rank);
/// The rank gives no sign of life: "rank 2 (host a) has not answered for 3 s; it was at PLACE".
std::string silent_text(const RankPlace& rank, std::chrono::milliseconds silence);
/// The rank destroyed its exchange while others wait: "rank 2 (host a) has ended its run; rank 0 waits for it at
/// PLACE".
std::string finished_text(const RankPlace& rank, const RankPlace& waiting);

/// Throws UserError (failure).
[[noreturn]] void throw_failure(const std::string& message);

/// The first `bytes` bytes of `text`, cut between UTF-8 characters.
std::string_view cut_text(std::string_view text, size_t bytes);

/// Seconds without needless digits: "3 s", "0.5 s".
std::string seconds_text(std::chrono::milliseconds time);

/// Bytes of a note() that are kept.
constexpr size_t kMaxNote = 200;
/// Bytes of a fail() and of a fault's message that are kept.
constexpr size_t kMaxFault = 1000;

/// The name of this host, at most 64 bytes.
std::string host_name();

}  // namespace plimsoll
