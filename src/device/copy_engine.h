// Declares copies between a device's arena and the host's or the disk's, which overlap with the ops that run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace plimsoll {

/// An engine that begins copies in the order in which they are started. Its destructor waits for copies in flight.
class CopyEngine {
 public:
  virtual ~CopyEngine() = default;

  /// Begins a copy, after all ops that were run so far. The ranges must not overlap. Returns the copy's number. `first`
  /// is called before the bytes are copied; `then` after that, and before the copy counts as done. Both are called by
  /// any thread and must not throw.
  virtual int64_t start(std::byte* target, const std::byte* source, size_t bytes, std::function<void()> then = {},
                        std::function<void()> first = {}) = 0;

  /// Orders ops run from now on after that copy, and after all earlier copies in its direction.
  virtual void wait(int64_t copy) = 0;

  /// Returns when that copy and all before it are done: the host may read their targets and write to their sources.
  virtual void wait_on_host(int64_t copy) = 0;
  virtual void wait_for_all() = 0;
};

}  // namespace plimsoll
