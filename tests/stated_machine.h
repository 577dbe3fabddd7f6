// A machine with stated rates, for tests: its clock advances by computed seconds and not by the processor's.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "base/measurement.h"

namespace plimsoll {

/// Runs all work, and states its seconds by rates. 16-bit kernels of libtorch are slow if the processor has no
/// instructions for their dtype: real runs choose other kernels there, and so do tests.
class StatedMachine : public MeasuringMachine {
 public:
  static constexpr double kFlops = 50e9;     ///< operations a second
  static constexpr double kBytes = 10e9;     ///< bytes a second
  static constexpr double kOverhead = 2e-6;  ///< seconds of a call
  static constexpr double kSlow = 0.1;       ///< part of kFlops that emulated instructions reach

  double now() override { return clock_.load(); }
  void wait(double seconds) override { clock_ += seconds; }
  double time(const MeasuredWork& work, const std::function<void()>& run) override {
    run();
    const double flops = is_emulated(work.name) ? kSlow * kFlops : kFlops;
    const double seconds = kOverhead + std::max(work.flops / flops, work.bytes / kBytes);
    clock_ += seconds;
    return seconds;
  }

  double done(const MeasuredWork& work, double seconds) override {
    return time(work, [] {});
  }

  std::optional<OtherWork> other_work() override { return OtherWork{}; }

 private:
  static bool is_emulated(std::string_view name) {
    if (!name.starts_with("libtorch")) return false;
    const bool has_bfloat16 = __builtin_cpu_supports("avx512bf16") && std::getenv("ONEDNN_MAX_CPU_ISA") == nullptr;
    return (name.ends_with("bfloat16") && !has_bfloat16) || name.ends_with(" float16");
  }

  std::atomic<double> clock_ = 0;
};

}  // namespace plimsoll
