// Declares a scope in which a kernel of libtorch writes results where the caller wants them, although its operator
// allocates them itself.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace plimsoll::ops {

/// A scope in which at::empty_like() on this thread returns `places` one after the other, each for the first call with
/// its sizes and dtype. Other calls allocate, as outside. A kernel that makes its results by empty_like() of its
/// operands then fills views of a larger tensor. For operators that have no `out`, as libtorch's backward of attention;
/// the caller compares what it gets, because another version of libtorch may allocate in another way. Scopes may not be
/// nested.
class PlacedResults {
 public:
  explicit PlacedResults(std::vector<at::Tensor> places);
  ~PlacedResults();
  PlacedResults(const PlacedResults&) = delete;
  PlacedResults& operator=(const PlacedResults&) = delete;

 private:
  struct Scope;
  std::unique_ptr<Scope> scope_;
};

}  // namespace plimsoll::ops
