#include "run/executor/guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

// The first reads as NaN in every floating type and as an index that is out of range, the second as 0.
constexpr std::byte kNaN{0xff}, kZero{0x00};

std::atomic<CheckedOps*> current_scope{nullptr};

std::vector<ByteRange> merged(std::vector<ByteRange> ranges) {
  std::erase_if(ranges, [](const ByteRange& range) { return range.begin >= range.end; });
  std::ranges::sort(ranges, {}, &ByteRange::begin);
  std::vector<ByteRange> merged;
  for (const ByteRange& range : ranges) {
    if (!merged.empty() && range.begin <= merged.back().end)
      merged.back().end = std::max(merged.back().end, range.end);
    else
      merged.push_back(range);
  }
  return merged;
}

// Calls `visit(range)` for each part of `whole` that is in none of the merged ranges.
template <typename Visit>
void for_each_gap(ByteRange whole, const std::vector<ByteRange>& ranges, Visit&& visit) {
  int64_t begin = whole.begin;
  for (const ByteRange& range : ranges) {
    if (range.end <= begin) continue;
    if (range.begin >= whole.end) break;
    if (range.begin > begin) visit(ByteRange{begin, range.begin});
    begin = range.end;
  }
  if (begin < whole.end) visit(ByteRange{begin, whole.end});
}

// Returns the first byte of the range that is not `value`, or -1.
int64_t first_other(const std::byte* data, ByteRange range, std::byte value) {
  const std::byte* const begin = data + range.begin;
  const auto bytes = static_cast<size_t>(range.end - range.begin);
  if (begin[0] == value && std::memcmp(begin, begin + 1, bytes - 1) == 0) return -1;
  return std::find_if(begin, data + range.end, [&](std::byte byte) { return byte != value; }) - data;
}

// Returns the first byte of the range that differs, or -1.
int64_t first_difference(const std::byte* a, const std::byte* b, ByteRange range) {
  if (std::memcmp(a + range.begin, b + range.begin, static_cast<size_t>(range.end - range.begin)) == 0) return -1;
  return std::mismatch(a + range.begin, a + range.end, b + range.begin).first - a;
}

void copy_ranges(std::byte* target, const std::byte* source, const std::vector<ByteRange>& ranges) {
  for (const auto& [begin, end] : ranges) std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
}

void fill_ranges(std::byte* data, const std::vector<ByteRange>& ranges, std::byte value) {
  for (const auto& [begin, end] : ranges)
    std::memset(data + begin, static_cast<int>(value), static_cast<size_t>(end - begin));
}

// Returns true if the op makes results whose bytes it does not write.
bool leaves_unwritten(const Op& op) {
  constexpr std::array kOps = {"aten::empty.memory_format", "aten::empty_strided", "aten::empty_like",
                               "aten::new_empty", "aten::new_empty_strided"};
  return std::ranges::find(kOps, op.name) != kOps.end();
}

bool is_dense(const View& view) {
  const ByteRange range = byte_range(view);
  return range.end - range.begin == view.elements() * element_bytes(view.dtype);
}

}  // namespace

CheckedOps::CheckedOps() {
  CheckedOps* none = nullptr;
  if (!current_scope.compare_exchange_strong(none, this))
    throw UserError("another training of this process checks its ops; end it first");
}

CheckedOps::~CheckedOps() {
  current_scope = nullptr;
}

CheckedOps* CheckedOps::current() {
  return current_scope;
}

void CheckedOps::note_run(int32_t index, const std::string& op, int64_t planned, int64_t requested) {
  const std::lock_guard lock(mutex_);
  ++runs_;
  if (planned <= 0) return;
  int64_t& most = requested_[{index, op, planned}];
  most = std::max(most, requested);
}

int64_t CheckedOps::runs() const {
  const std::lock_guard lock(mutex_);
  return runs_;
}

std::vector<CheckedOps::Scratch> CheckedOps::unrequested() const {
  const std::lock_guard lock(mutex_);
  std::vector<Scratch> found;
  for (const auto& [key, requested] : requested_)
    if (const auto& [index, op, planned] = key; placed_bytes(requested) < planned)
      found.push_back({op, planned, requested});
  std::ranges::stable_sort(found, std::ranges::greater(),
                           [](const Scratch& each) { return each.planned - each.requested; });
  return found;
}

std::string CheckedOps::summary() const {
  const std::vector<Scratch> found = unrequested();
  std::string text = fmt::format("checked: {} runs of ops stayed within their planned places{}", runs(),
                                 found.empty() ? ", and each op requested the scratch that is planned for it" : "");
  if (!found.empty())
    text += fmt::format("; planned scratch that was not requested: {} of {} for {}{}",
                        format_bytes(found[0].planned - found[0].requested), format_bytes(found[0].planned),
                        found[0].op, found.size() > 1 ? fmt::format(", less for {} others", found.size() - 1) : "");
  return text;
}

OpGuard::OpGuard(const Plan& plan, Arena& arena, Arena* host) : plan_(plan), lifetimes_(lifetimes_of(plan.trace)) {
  for (const auto& [memory, each] : {std::pair(Memory::device, &arena), {Memory::host, host}})
    if (each && each->bytes() > 0)
      spaces_.push_back({memory, each, std::vector<std::byte>(static_cast<size_t>(each->bytes())), kNaN});
}

void OpGuard::begin_segment() {
  for (Space& space : spaces_) {
    std::memcpy(space.shadow.data(), space.arena->data(), space.shadow.size());
    std::memset(space.arena->data(), static_cast<int>(space.pattern), space.shadow.size());
  }
  in_segment_ = true;
}

void OpGuard::end_segment() {
  if (!in_segment_) return;
  in_segment_ = false;
  for (const Space& space : spaces_) std::memcpy(space.arena->data(), space.shadow.data(), space.shadow.size());
}

OpGuard::Places OpGuard::places_of(int32_t index, const Space& space, std::span<std::byte> scratch) const {
  const Op& op = plan_.trace.ops[index];
  Places places;
  for_each_view(op, [&](const View& view, bool written) {
    const Buffer& buffer = plan_.trace.buffers[view.buffer];
    const int64_t offset = plan_.offsets[view.buffer];
    if (offset < 0 || buffer.memory != space.memory) return;
    const auto [begin, end] = byte_range(view);
    const ByteRange range = {offset + begin, offset + end};
    if (written) places.written.push_back(range);
    // Gaps between the elements of a result keep their bytes in both runs, which are then alike.
    const bool is_new = written && !buffer.persistent && lifetimes_[view.buffer].birth == index;
    if (!is_new || !is_dense(view) || leaves_unwritten(op)) places.given.push_back(range);
  });
  const std::byte* const data = space.arena->data();
  if (!scratch.empty() && scratch.data() >= data && scratch.data() < data + space.shadow.size())
    places.scratch.push_back({scratch.data() - data, scratch.data() - data + std::ssize(scratch)});
  places.given = merged(std::move(places.given));
  places.written = merged(std::move(places.written));
  return places;
}

std::string OpGuard::op_text(int32_t index) const {
  const Op& op = plan_.trace.ops[index];
  const std::string& module = plan_.trace.modules[op.module];
  return fmt::format("op {} ({}{})", op.name, index, module.empty() ? "" : fmt::format(", module '{}'", module));
}

std::string OpGuard::buffer_at(int32_t index, const Space& space, int64_t byte) const {
  const Trace& trace = plan_.trace;
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    const int64_t offset = plan_.offsets[b];
    if (trace.buffers[b].memory != space.memory || offset < 0 || !lifetimes_[b].live_at(index)) continue;
    if (byte >= offset && byte < offset + placed_bytes(trace, trace.buffers[b].bytes))
      return fmt::format("byte {} of the {} arena, byte {} of buffer '{}' with {} bytes", byte, name_of(space.memory),
                         byte - offset, trace.buffers[b].label, trace.buffers[b].bytes);
  }
  return fmt::format("byte {} of the {} arena, which is in no live buffer", byte, name_of(space.memory));
}

// Throws if a byte outside of the op's results and scratch has changed.
void OpGuard::require_unchanged(int32_t index, const Space& space, const Places& places) const {
  const std::byte* const data = space.arena->data();
  std::vector<ByteRange> all = places.given;
  all.insert(all.end(), places.written.begin(), places.written.end());
  all.insert(all.end(), places.scratch.begin(), places.scratch.end());
  const auto require = [&](int64_t byte) {
    if (byte >= 0)
      throw InternalError(
          fmt::format("{} writes outside of its planned places: {}", op_text(index), buffer_at(index, space, byte)));
  };
  for_each_gap({0, std::ssize(space.shadow)}, merged(std::move(all)),
               [&](ByteRange gap) { require(first_other(data, gap, space.pattern)); });
  for (const ByteRange& operand : places.given)
    for_each_gap(operand, places.written,
                 [&](ByteRange gap) { require(first_difference(data, space.shadow.data(), gap)); });
}

// Throws if the results differ from those of the first run.
void OpGuard::require_same(int32_t index, const Space& space, const Places& places, const std::vector<std::byte>& first,
                           std::byte first_pattern) const {
  const std::byte* const data = space.arena->data();
  size_t at = 0;
  for (const auto& [begin, end] : places.written) {
    const std::byte* const before = first.data() + at;
    at += static_cast<size_t>(end - begin);
    if (std::memcmp(before, data + begin, static_cast<size_t>(end - begin)) == 0) continue;
    const std::byte* const differs = std::mismatch(data + begin, data + end, before).first;
    const int64_t byte = differs - data;
    const bool unwritten = before[byte - begin] == first_pattern && *differs == space.pattern;
    throw InternalError(
        fmt::format("{} {}: its result differs with the bytes around its operands, at {}", op_text(index),
                    unwritten ? "leaves bytes of its result unwritten, or reads bytes outside of its planned places"
                              : "reads bytes outside of its planned places",
                    buffer_at(index, space, byte)));
  }
}

void OpGuard::run(int32_t index, std::span<std::byte> scratch, bool repeats, const std::function<void()>& call) {
  std::vector<Places> places;
  for (const Space& space : spaces_) {
    places.push_back(places_of(index, space, scratch));
    copy_ranges(space.arena->data(), space.shadow.data(), places.back().given);
  }
  call();
  for (size_t s = 0; s < spaces_.size(); ++s) require_unchanged(index, spaces_[s], places[s]);
  if (repeats) {
    std::vector<std::vector<std::byte>> first(spaces_.size());
    for (size_t s = 0; s < spaces_.size(); ++s) {
      Space& space = spaces_[s];
      std::byte* const data = space.arena->data();
      for (const auto& [begin, end] : places[s].written) first[s].insert(first[s].end(), data + begin, data + end);
      space.pattern = space.pattern == kNaN ? kZero : kNaN;
      fill_ranges(data, {{0, std::ssize(space.shadow)}}, space.pattern);
      copy_ranges(data, space.shadow.data(), places[s].given);
    }
    call();
    for (size_t s = 0; s < spaces_.size(); ++s) {
      const Space& space = spaces_[s];
      require_unchanged(index, space, places[s]);
      require_same(index, space, places[s], first[s], space.pattern == kNaN ? kZero : kNaN);
    }
  }
  for (size_t s = 0; s < spaces_.size(); ++s) {
    Space& space = spaces_[s];
    copy_ranges(space.shadow.data(), space.arena->data(), places[s].written);
    for (const std::vector<ByteRange>* ranges : {&places[s].given, &places[s].written, &places[s].scratch})
      fill_ranges(space.arena->data(), *ranges, space.pattern);
  }
}

}  // namespace plimsoll
