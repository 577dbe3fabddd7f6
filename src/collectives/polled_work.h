// Work of a device that is waited for by asking again and again, so that a rank that fails ends the wait.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace plimsoll {

/// A c10d::Work whose wait() asks `done` until it is true. abort(), which any thread may call, makes wait() return
/// false. What `done` throws, wait() throws.
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
