// Declares OpGuard, which runs each op of a plan with guarded surroundings, and CheckedOps, the scope that asks for it.
//
//     arena     ffff operand ffffffff result ffff scratch fff     while an op runs: a pattern outside of its operands
//     shadow    the contents of all buffers                       everything else, until the segment ends
//
// An op runs twice, with two patterns around its operands. Two checks follow, of which neither is an estimate:
//   - after each run, bytes outside of the op's results and scratch are unchanged: it has written to its places only;
//   - both runs have the same results to the bit: it has read nothing but its operands, and has written all results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "device/arena.h"
#include "plimsoll/plan.h"
#include "plimsoll/trace.h"
#include "trace/trace_queries.h"

namespace plimsoll {

/// A scope in which trainings of this process check each op that they run. Its findings are errors, except scratch that
/// is planned and not requested. At most one exists at a time.
class CheckedOps {
 public:
  /// Throws UserError if a scope exists.
  CheckedOps();
  ~CheckedOps();
  CheckedOps(const CheckedOps&) = delete;
  CheckedOps& operator=(const CheckedOps&) = delete;

  /// Returns the scope that exists now, or nullptr.
  static CheckedOps* current();

  /// Planned scratch of an op, and the largest part of it that a kernel requested at one time, in bytes.
  struct Scratch {
    std::string op;
    int64_t planned = 0, requested = 0;
  };
  /// Records one run of op `index` of a plan. Scratch that is not planned is 0.
  void note_run(int32_t index, const std::string& op, int64_t planned, int64_t requested);
  /// Returns the number of runs of kernels: two for each op that was checked twice.
  int64_t runs() const;
  /// Returns the planned scratch of the ops that never requested all of it, the largest unrequested part first.
  std::vector<Scratch> unrequested() const;
  /// Returns the result of the checks in one line.
  std::string summary() const;

 private:
  mutable std::mutex mutex_;
  int64_t runs_ = 0;
  // Largest requested scratch in bytes, by index, name and planned bytes of the op: re-planning changes indices.
  std::map<std::tuple<int32_t, std::string, int64_t>, int64_t> requested_;
};

class OpGuard {
 public:
  /// The arenas must be addressed by the host; `host` may be null. All arguments must outlive the guard, which
  /// allocates the bytes of both arenas a second time. The arena on disk is not guarded: only copies reach it.
  OpGuard(const Plan& plan, Arena& arena, Arena* host);

  /// Moves the contents of the arenas to the shadow, and back. Between the two calls, only run() may use the arenas.
  /// end_segment() does nothing if no segment was begun.
  void begin_segment();
  void end_segment();

  /// Runs op `index` by `call`, which returns when the op is done. `scratch` is the op's place for scratch. `repeats`:
  /// `call` may run a second time with the same operands; false: reads outside of the operands are not found. Throws
  /// InternalError with the op's name for a write or read outside of its planned places.
  void run(int32_t index, std::span<std::byte> scratch, bool repeats, const std::function<void()>& call);

 private:
  // The places of an op in one arena: sorted ranges of bytes that do not overlap.
  struct Places {
    std::vector<ByteRange> given;    // operands, which hold their values when the op begins
    std::vector<ByteRange> written;  // results, and operands written in place
    std::vector<ByteRange> scratch;
  };
  // An arena, its contents, and the pattern that it has outside of the op that runs.
  struct Space {
    Memory memory;
    Arena* arena;
    std::vector<std::byte> shadow;
    std::byte pattern;
  };

  Places places_of(int32_t index, const Space& space, std::span<std::byte> scratch) const;
  void require_unchanged(int32_t index, const Space& space, const Places& places) const;
  void require_same(int32_t index, const Space& space, const Places& places, const std::vector<std::byte>& first,
                    std::byte first_pattern) const;
  std::string buffer_at(int32_t index, const Space& space, int64_t byte) const;
  std::string op_text(int32_t index) const;

  const Plan& plan_;
  std::vector<Lifetime> lifetimes_;
  std::vector<Space> spaces_;
  bool in_segment_ = false;
};

}  // namespace plimsoll
