// Timed steps in Chrome's trace event format, for ui.perfetto.dev:
//
//     ops     |────────────── step 2 ──────────────|
//             |inputs|────── micro ──────|─ update ─|
//                    |mm|add|rms_norm|mm| |adamw_|…
//     copies             |to host| |from host|
//     memory  ▁▃▅▇▇▅▃▁  live bytes of each arena, as planned
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
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
  int64_t bytes = 0;  ///< read and written; of a copy: copied
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
  std::vector<Run> copies;  ///< in the order in which they were made, one after the other
};

/// What is said of the whole.
struct ProfileTitle {
  std::string machine;
  int threads = 0;  ///< that a kernel uses
};

/// Writes the steps to `file`, whole or not at all. Throws UserError (failure) where that cannot be written.
void write_profile(const std::filesystem::path& file, const ProfileTitle& title,
                   const std::vector<ProfiledStep>& steps);

}  // namespace plimsoll
