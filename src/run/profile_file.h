// Declares timed steps in Chrome's trace event format, for ui.perfetto.dev:
//
//     ops     |────────────── step 2 ──────────────|
//             |inputs|────── micro ──────|─ update ─|
//                    |mm|add|rms_norm|mm| |adamw_|…
//     copies             |to host| |from host|
//     memory  ▁▃▅▇▇▅▃▁  live bytes of each arena, as planned
//
// A profile of several ranks has these rows for each rank.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/plan.h"

namespace plimsoll {

/// Properties of an op of a plan that a profile shows in addition to its time.
struct ProfiledOp {
  std::string name;    ///< "aten::mm.out", "plimsoll::copy_to_host"
  std::string module;  ///< dotted path; empty: none
  std::string buffer;  ///< label of the copied buffer, if the op is a copy
  Phase phase = Phase::forward;
  double flops = 0;
  int64_t bytes = 0;       ///< read and written; for a copy: copied
  int64_t link_bytes = 0;  ///< sent to other ranks by an exchange; 0: the op is none
  bool exchange = false;   ///< an exchange between ranks, or the wait for one
  bool recomputed = false, on_host = false;
  std::array<int64_t, kMemories> live_bytes{};  ///< by memory: bytes of the buffers that are live while it runs, its
                                                ///< scratch included
};

/// Parts of a plan that profiles of its steps need; the plan itself may be destroyed before they are written.
struct ProfiledPlan {
  explicit ProfiledPlan(const Plan& plan);

  std::vector<ProfiledOp> ops;                   ///< by op
  std::array<int64_t, kMemories> arena_bytes{};  ///< by memory; 0: the plan has no such arena
};

/// A half-open span in nanoseconds, on one clock for all spans.
struct ProfiledSpan {
  int64_t begin = 0, end = 0;
};

struct ProfiledStep {
  int64_t number = 0;  ///< number of the step in the training, from 1
  ProfiledSpan span;
  std::shared_ptr<const ProfiledPlan> plan;
  /// A segment or another part of a step: "micro", "inputs".
  struct Part {
    std::string_view name;  ///< never freed
    ProfiledSpan span;
  };
  std::vector<Part> parts;
  struct Run {
    int32_t op;  ///< index into the plan's ops
    ProfiledSpan span;
  };
  std::vector<Run> ops;     ///< in order; each is within one part
  std::vector<Run> copies;  ///< copies, and exchanges that overlap with ops; each kind in order, one after the other
};

/// Properties of the whole profile.
struct ProfileTitle {
  std::string machine;
  int threads = 0;  ///< number that a kernel uses
};

/// The process that ran the steps.
struct ProfiledProcess {
  int number = 1;  ///< number of the process in the file
  std::string name = "plimsoll train";
  int64_t start = 0;  ///< the nanosecond of the process's clock that is 0 in the file; no span begins earlier
};

/// Returns the text of a file before its first event. `ranks`: processes in the file.
std::string profile_head(const ProfileTitle& title, int ranks);
/// Passes the steps of a process as events to `take`, in pieces of about 1 MiB. Every event of a `follower` begins with
/// a comma, because events of another process precede it.
void profile_events(const ProfiledProcess& process, int threads, const std::vector<ProfiledStep>& steps, bool follower,
                    const std::function<void(std::string_view)>& take);
/// The text of a file after its last event.
constexpr std::string_view kProfileEnd = "\n]}\n";

/// Writes the steps of the only rank to `file`, whole or not at all. Throws UserError if the file cannot be
/// written.
void write_profile(const std::filesystem::path& file, const ProfileTitle& title,
                   const std::vector<ProfiledStep>& steps);

}  // namespace plimsoll
