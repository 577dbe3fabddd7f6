// Declares a scope in which kernels of libtorch give the same bits at each call.
#pragma once

#include <ATen/Context.h>

namespace plimsoll::ops {

/// A scope in which libtorch's kernels are deterministic: those that sum with atomics, in any order, take another way.
/// libtorch's fill of uninitialized memory stays off. The setting is the process's, so the scope is around one call.
class Deterministic {
 public:
  Deterministic()
      : on_(context().deterministicAlgorithms()),
        warn_only_(context().deterministicAlgorithmsWarnOnly()),
        fill_(context().deterministicFillUninitializedMemory()) {
    context().setDeterministicAlgorithms(true, /*warn_only=*/false);
    context().setDeterministicFillUninitializedMemory(false);
  }
  ~Deterministic() {
    context().setDeterministicAlgorithms(on_, warn_only_);
    context().setDeterministicFillUninitializedMemory(fill_);
  }
  Deterministic(const Deterministic&) = delete;
  Deterministic& operator=(const Deterministic&) = delete;

 private:
  static at::Context& context() { return at::globalContext(); }
  bool on_, warn_only_, fill_;
};

}  // namespace plimsoll::ops
