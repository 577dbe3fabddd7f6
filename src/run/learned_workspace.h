// Scratch that kernels turned out to take, by what determines it: the operator and its operands' shapes.
#pragma once

#include <map>
#include <string>

#include "plimsoll/plan.h"

namespace plimsoll {

class LearnedWorkspace {
 public:
  /// `base` is asked for operators that nothing was learned about.
  explicit LearnedWorkspace(WorkspaceModel base) : base_(std::move(base)) {}

  /// True if this is more than was known.
  bool learn(const Op& op, int64_t bytes);
  WorkspaceModel model() const;

 private:
  static std::string key_of(const Op& op);
  WorkspaceModel base_;
  std::map<std::string, int64_t> bytes_;
};

}  // namespace plimsoll
