#include "collectives/rank_fault.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

std::string named(const RankPlace& rank) {
  if (rank.host.empty()) return fmt::format("rank {}", rank.rank);
  return fmt::format("rank {} (host {})", rank.rank, rank.host);
}

}  // namespace

std::string failed_text(const RankPlace& rank, std::string_view why) {
  const std::string place = rank.place.empty() ? std::string() : "; it was at " + rank.place;
  return fmt::format("{} failed: {}{}", named(rank), why, place);
}

std::string ended_text(const RankPlace& rank) {
  if (rank.place.empty()) return named(rank) + " ended before its first step";
  return fmt::format("{} ended in {}", named(rank), rank.place);
}

std::string silent_text(const RankPlace& rank, std::chrono::milliseconds silence) {
  const std::string place = rank.place.empty() ? "before its first step" : "at " + rank.place;
  return fmt::format("{} has not answered for {}; it was {}", named(rank), seconds_text(silence), place);
}

std::string finished_text(const RankPlace& rank, const RankPlace& waiting) {
  const std::string place = waiting.place.empty() ? std::string() : " at " + waiting.place;
  return fmt::format("{} has ended its run; rank {} waits for it{}", named(rank), waiting.rank, place);
}

void throw_failure(const std::string& message) {
  throw UserError(message, UserError::Kind::failure);
}

std::string_view cut_text(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  size_t end = bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u) --end;
  return text.substr(0, end);
}

std::string seconds_text(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000);
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return std::string(cut_text(name.data(), 64));
}

}  // namespace plimsoll
