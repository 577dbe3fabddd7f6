// Copies between a device's arena and the host's or the disk's, beside the ops that run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace plimsoll {

/// Copies begin in the order in which they are started. What is in flight when an engine is destroyed is waited for.
class CopyEngine {
 public:
  virtual ~CopyEngine() = default;

  /// Begins a copy, after all ops that were run so far. The ranges must not overlap. Gives the copy's number.
  /// `then`, which must not throw, is called when it is copied, before the copy counts as done, by any thread; `first`,
  /// likewise, before it is copied.
  virtual int64_t start(std::byte* target, const std::byte* source, size_t bytes, std::function<void()> then = {},
                        std::function<void()> first = {}) = 0;

  /// Ops run from now on see what that copy, and all before it in its direction, have copied.
  virtual void wait(int64_t copy) = 0;

  /// Returns when that copy and all before it are done: the host may read their targets and write to their sources.
  virtual void wait_on_host(int64_t copy) = 0;
  virtual void wait_for_all() = 0;
};

}  // namespace plimsoll
