#include "plan/search/offload_candidates.h"

#include <algorithm>
#include <map>

#include "plan/passes/segment_copies.h"
#include "plimsoll/trace.h"
#include "trace/trace_queries.h"

namespace plimsoll {
namespace {

// Returns the number of runs of a segment in a step of `micro_batches` micro batches.
double runs_of(const Trace& trace, SegmentKind segment, int64_t micro_batches) {
  return static_cast<double>(
      runs_in_step(trace, segment, micro_batches, trace.segment(SegmentKind::remainder) != nullptr));
}

}  // namespace

OffloadCandidates::OffloadCandidates(const Trace& trace, int64_t micro_batches, const OffloadParameters& parameters)
    : trace_(trace), micro_batches_(micro_batches) {
  std::vector<char> excluded(trace.buffers.size(), 0), trained(trace.buffers.size(), 0);
  for (const NamedView& input : trace.inputs) excluded[input.view.buffer] = 1;
  for (const NamedView& output : trace.outputs) excluded[output.view.buffer] = 1;
  std::vector<int32_t> segments(trace.buffers.size(), 0), seen(trace.buffers.size(), -1);
  std::vector<LinkTransfers> transfers(trace.buffers.size());
  const std::vector<Lifetime> lifetimes = lifetimes_of(trace);
  std::vector<char> has_data(trace.buffers.size(), 0);
  for (size_t s = 0; s < trace.segments.size(); ++s) {
    const Segment& segment = trace.segments[s];
    const bool training = is_training(segment.kind);
    const double times = runs_of(trace, segment.kind, micro_batches);
    struct Residency {
      int32_t last;
      bool fetched, written;
    };
    std::map<BufferId, Residency> open;
    const auto close = [&](BufferId buffer, const Residency& residency) {
      const bool needed_later = trace.buffers[buffer].persistent || lifetimes[buffer].death > residency.last + 1;
      transfers[buffer].in[training ? 0 : 1] += residency.fetched ? times : 0;
      transfers[buffer].out[training ? 0 : 1] += residency.written && needed_later ? times : 0;
    };
    for (int32_t i = segment.begin; i < segment.end; ++i)
      for_each_view(trace.ops[i], [&](const View& view, bool written) {
        const BufferId b = view.buffer;
        if (seen[b] != static_cast<int32_t>(s)) ++segments[b];
        seen[b] = static_cast<int32_t>(s);
        if (segment.kind != SegmentKind::initialize && written) trained[b] = 1;
        const auto [at, added] = open.try_emplace(b, Residency{i, has_data[b] || !written, written});
        if (!added && i - at->second.last > kMaxUseGap) {
          close(b, at->second);
          at->second = {i, true, written};
        }
        at->second.last = i;
        at->second.written = at->second.written || written;
        has_data[b] = has_data[b] || written;
      });
    for (const auto& [buffer, residency] : open) close(buffer, residency);
  }

  std::vector<std::vector<Candidate>> kinds(4);
  int64_t largest = 0;
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    const Buffer& buffer = trace.buffers[b];
    if (excluded[b] || buffer.output) continue;
    int kind;
    if (buffer.role == Role::optimizer_state && buffer.persistent)
      kind = 0;
    else if (buffer.role == Role::parameter && buffer.persistent)
      kind = trained[b] ? 3 : 1;
    else if (buffer.role == Role::gradient && (buffer.persistent || segments[b] > 1))
      kind = 2;
    else
      continue;
    kinds[kind].push_back({static_cast<BufferId>(b), placed_bytes(trace, buffer.bytes), transfers[b]});
    largest = std::max(largest, buffer.bytes);
  }
  // A buffer that is much smaller than the largest is not worth a copy's overhead.
  const int64_t least = std::max(largest / parameters.max_buffer_ratio, trace.alignment + 1);
  std::vector<std::pair<double, std::vector<Candidate>>> order;
  for (std::vector<Candidate>& kind : kinds) {
    std::erase_if(kind, [&](const Candidate& each) { return trace.buffers[each.buffer].bytes < least; });
    double bytes = 0, crossed = 0;
    for (const Candidate& each : kind) {
      bytes += static_cast<double>(each.bytes);
      crossed += static_cast<double>(each.bytes) * each.transfers.all();
    }
    if (!kind.empty()) order.emplace_back(crossed / bytes, std::move(kind));
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [crossed, kind] : order) kinds_.push_back(std::move(kind));
}

OffloadAssignment OffloadCandidates::choose(double fraction, int64_t host_room, int64_t disk_room) const {
  OffloadAssignment choice;
  choice.memory.assign(trace_.buffers.size(), Memory::device);
  std::vector<const Candidate*> picked;
  int64_t bytes = 0;
  for (size_t k = 0; k < kinds_.size(); ++k) {
    const double share = std::clamp(fraction - static_cast<double>(k), 0.0, 1.0);
    // Bytes that should have been picked so far, less the bytes that were picked. A buffer is picked when at least half
    // of it is owed, which spreads the picked buffers evenly over the model (error diffusion).
    double owed = 0;
    for (const Candidate& each : kinds_[k]) {
      owed += share * static_cast<double>(each.bytes);
      if (share < 1 && owed < static_cast<double>(each.bytes) / 2) continue;
      if (share == 0 || bytes + each.bytes > host_room + disk_room) continue;
      owed -= static_cast<double>(each.bytes);
      bytes += each.bytes;
      picked.push_back(&each);
    }
  }
  int64_t over = bytes - host_room;
  for (const Candidate* each : picked) {
    Memory& memory = choice.memory[each->buffer];
    memory = Memory::host;
    if (over <= 0 || choice.disk_bytes + each->bytes > disk_room) continue;
    memory = Memory::disk;
    choice.disk_bytes += each->bytes;
    over -= each->bytes;
  }
  // A buffer is not split between memories. The picked buffers may therefore not fit, although their sum does. The last
  // ones then stay on the device.
  while (over > 0) {
    const Candidate* last = picked.back();
    if (choice.memory[last->buffer] == Memory::disk)
      choice.disk_bytes -= last->bytes;
    else
      over -= last->bytes;
    choice.memory[last->buffer] = Memory::device;
    picked.pop_back();
  }
  for (const Candidate* each : picked) {
    if (choice.memory[each->buffer] == Memory::host) choice.host_bytes += each->bytes;
    const Role role = trace_.buffers[each->buffer].role;
    (role == Role::optimizer_state ? choice.state_bytes
     : role == Role::gradient      ? choice.gradient_bytes
                                   : choice.parameter_bytes) += each->bytes;
    choice.used_by_micro_batches =
        choice.used_by_micro_batches || each->transfers.in[0] > 0 || each->transfers.out[0] > 0;
  }
  return choice;
}

double OffloadCandidates::wait_seconds_lower_bound(const OffloadAssignment& choice, const CostModel& cost) const {
  double in[2] = {0, 0}, out[2] = {0, 0};
  for (const auto& kind : kinds_)
    for (const Candidate& each : kind) {
      const Memory memory = choice.memory[each.buffer];
      if (memory == Memory::device) continue;
      const double seconds = copy_seconds(cost, each.bytes, memory);
      for (int part : {0, 1}) {
        in[part] += seconds * each.transfers.in[part];
        out[part] += seconds * each.transfers.out[part];
      }
    }
  if (!cost.copies_overlap) return in[0] + in[1] + out[0] + out[1];
  double ops[2] = {0, 0};
  for (const Segment& segment : trace_.segments)
    if (const double times = runs_of(trace_, segment.kind, micro_batches_); times > 0)
      ops[is_training(segment.kind) ? 0 : 1] += times * segment_seconds(cost, trace_, segment.kind);
  double least = 0;
  for (int part : {0, 1}) least += std::max(std::max(in[part], out[part]) - ops[part], 0.0);
  return least;
}

}  // namespace plimsoll
