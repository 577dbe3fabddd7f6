// Timed steps in Chrome's trace event format, for ui.perfetto.dev:
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

/// What a profile says of an op of a plan beside its time.
struct ProfiledOp {
  std::string name;    ///< "aten::mm.out", "plimsoll::copy_to_host"
  std::string module;  ///< dotted path; empty: none
  std::string buffer;  ///< of a copy: the label of what is copied
  Phase phase = Phase::forward;
  double flops = 0;
  int64_t bytes = 0;       ///< read and written; of a copy: copied
  int64_t link_bytes = 0;  ///< sent to other ranks by an exchange; 0: the op is none
  bool exchange = false;   ///< an exchange between ranks, or the wait for one
  bool recomputed = false, on_host = false;
  std::array<int64_t, kMemories> live_bytes{};  ///< by memory: buffers that live while it runs, its scratch included
};

/// A plan, as far as profiles of its steps need it: the plan itself may be gone when they are written.
struct ProfiledPlan {
  explicit ProfiledPlan(const Plan& plan);

  std::vector<ProfiledOp> ops;                   ///< by op
  std::array<int64_t, kMemories> arena_bytes{};  ///< by memory; 0: nothing lies there
};

/// Nanoseconds, on one clock for all; half-open.
struct ProfiledSpan {
  int64_t begin = 0, end = 0;
};

struct ProfiledStep {
  int64_t number = 0;  ///< of the training, from 1
  ProfiledSpan span;
  std::shared_ptr<const ProfiledPlan> plan;
  /// Segments and what else fills a step: "micro", "inputs".
  struct Part {
    const char* name;  ///< a literal
    ProfiledSpan span;
  };
  std::vector<Part> parts;
  struct Run {
    int32_t op;  ///< index into the plan's ops
    ProfiledSpan span;
  };
  std::vector<Run> ops;     ///< in order; each lies within one part
  std::vector<Run> copies;  ///< copies, and exchanges beside ops; each kind in order, one after the other
};

/// What is said of the whole.
struct ProfileTitle {
  std::string machine;
  int threads = 0;  ///< that a kernel uses
};

/// The process that ran the steps.
struct ProfiledProcess {
  int number = 1;  ///< of the process in the file
  std::string name = "plimsoll train";
  int64_t start = 0;  ///< the nanosecond of the process's clock that is 0 in the file; no span begins earlier
};

/// Returns the text of a file before its first event. `ranks`: processes in the file.
std::string profile_head(const ProfileTitle& title, int ranks);
/// Gives the steps of a process as events to `take`, in pieces of about 1 MiB. Every event of a `follower` begins with
/// a comma, because events of another process stand before it.
void profile_events(const ProfiledProcess& process, int threads, const std::vector<ProfiledStep>& steps, bool follower,
                    const std::function<void(std::string_view)>& take);
/// The text of a file after its last event.
constexpr std::string_view kProfileEnd = "\n]}\n";

/// Writes the steps of the only rank to `file`, whole or not at all. Throws UserError (failure) where that cannot be
/// written.
void write_profile(const std::filesystem::path& file, const ProfileTitle& title,
                   const std::vector<ProfiledStep>& steps);

}  // namespace plimsoll
