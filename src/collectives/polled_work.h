// Declares work of a device whose wait polls the device, so that a rank that fails ends the wait.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace plimsoll {

/// A c10d::Work whose wait() calls `done` until it returns true. abort(), which any thread may call, makes wait()
/// return false. wait() throws what `done` throws.
class PolledWork final : public c10d::Work {
 public:
  explicit PolledWork(std::function<bool()> done);

  /// Returns false after abort() or `timeout`.
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override;

 private:
  std::function<bool()> done_;
  std::atomic<bool> aborted_{false};
};

}  // namespace plimsoll
