#include "plan/passes/fused_group.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

View over(const WalkedView& walked, const std::vector<int64_t>& sizes) {
  return {walked.buffer, walked.dtype, walked.offset, sizes, strides_over(walked.walk, sizes)};
}

template <typename Same>
int32_t index_in(const auto& list, const Same& same) {
  const auto found = std::ranges::find_if(list, same);
  return found == list.end() ? -1 : static_cast<int32_t>(found - list.begin());
}

}  // namespace

std::optional<PointwiseNode> node_of(int32_t index, const PointwiseOp& op) {
  PointwiseNode node;
  node.index = index;
  node.opcode = op.opcode;
  node.elements = op.result.elements();
  if (node.elements == 0) return std::nullopt;
  const std::vector<int> order = memory_order(op.result);
  const auto walked = [&](const View& view, const std::vector<int64_t>& strides) {
    return WalkedView{view.buffer, view.dtype, view.offset, walk_of(op.result.sizes, strides, order)};
  };
  node.result = walked(op.result, op.result.strides);
  // The view writes every element once if each stride is at least the extent of the dimensions within it.
  int64_t reach = 1;
  for (size_t d = node.result.walk.sizes.size(); d-- > 0;) {
    if (node.result.walk.strides[d] < reach) return std::nullopt;
    reach = node.result.walk.strides[d] * node.result.walk.sizes[d];
  }
  for (const PointwiseOp::Operand& operand : op.operands) {
    PointwiseNode::Operand& added = node.operands.emplace_back();
    added.constant = operand.constant;
    if (operand.view.buffer == kNoBuffer) continue;
    const auto strides = broadcast_strides(operand.view, op.result.sizes);
    if (!strides) return std::nullopt;
    added.view = walked(operand.view, *strides);
    added.elements = operand.view.elements();
  }
  return node;
}

bool FusedGroup::reads(BufferId buffer) const {
  return std::ranges::any_of(inputs_, [&](const WalkedView& input) { return input.buffer == buffer; });
}
bool FusedGroup::writes(BufferId buffer) const {
  return std::ranges::any_of(written_, [&](const Written& written) { return written.view.buffer == buffer; });
}

std::vector<BufferId> FusedGroup::written() const {
  std::vector<BufferId> buffers;
  for (const Written& written : written_) buffers.push_back(written.view.buffer);
  return buffers;
}

std::vector<Walk> FusedGroup::walks() const {
  std::vector<Walk> walks;
  for (const WalkedView& input : inputs_) walks.push_back(input.walk);
  for (const Written& written : written_) walks.push_back(written.view.walk);
  return walks;
}

bool FusedGroup::connects(const PointwiseNode& node) const {
  if (nodes_.empty()) return true;
  if (writes(node.result.buffer) || reads(node.result.buffer)) return true;
  return std::ranges::any_of(node.operands, [&](const PointwiseNode::Operand& operand) {
    if (operand.view.buffer == kNoBuffer) return false;
    return writes(operand.view.buffer) || (operand.elements == elements_ && reads(operand.view.buffer));
  });
}

bool FusedGroup::conflicts(const Op& op) const {
  bool conflict = false;
  for_each_view(op, [&](const View& view, bool written) {
    conflict = conflict || writes(view.buffer) || (written && reads(view.buffer));
  });
  return conflict;
}

bool FusedGroup::join(const PointwiseNode& node) {
  if (!nodes_.empty() && node.elements != elements_) return false;
  FusedGroup next = *this;
  next.elements_ = node.elements;
  Step step{node.opcode, node.result.dtype, {}};
  for (const PointwiseNode::Operand& operand : node.operands) {
    if (operand.view.buffer == kNoBuffer) {
      const auto bits = std::bit_cast<uint64_t>(operand.constant);
      int32_t at = index_in(next.constants_, [&](double known) { return std::bit_cast<uint64_t>(known) == bits; });
      if (at < 0) {
        at = static_cast<int32_t>(next.constants_.size());
        next.constants_.push_back(operand.constant);
      }
      step.operands.push_back({Reference::Kind::constant, at});
      continue;
    }
    const auto writer =
        index_in(next.written_, [&](const Written& each) { return each.view.buffer == operand.view.buffer; });
    if (writer >= 0) {
      if (next.written_[writer].view != operand.view) return false;
      step.operands.push_back({Reference::Kind::step, next.written_[writer].step});
      continue;
    }
    int32_t at = index_in(next.inputs_, [&](const WalkedView& each) { return each == operand.view; });
    if (at < 0) {
      at = static_cast<int32_t>(next.inputs_.size());
      next.inputs_.push_back(operand.view);
    }
    step.operands.push_back({Reference::Kind::input, at});
  }
  // A node may overwrite an input only element by element: input and result must be the same elements.
  if (std::ranges::any_of(next.inputs_, [&](const WalkedView& input) {
        return input.buffer == node.result.buffer && input != node.result;
      }))
    return false;
  const auto number = static_cast<int32_t>(next.steps_.size());
  const auto writer =
      index_in(next.written_, [&](const Written& each) { return each.view.buffer == node.result.buffer; });
  if (writer < 0) {
    next.written_.push_back({node.result, number});
  } else {
    if (next.written_[writer].view != node.result) return false;
    next.written_[writer].step = number;
  }
  next.steps_.push_back(std::move(step));
  next.nodes_.push_back(node);
  if (static_cast<int32_t>(next.inputs_.size()) > kMaxFusedInputs ||
      static_cast<int32_t>(next.written_.size()) > kMaxFusedOutputs ||
      static_cast<int32_t>(next.steps_.size()) > kMaxFusedSteps)
    return false;
  const std::vector<Walk> walks = next.walks();
  // Kernels read contiguous runs.
  if (std::ranges::any_of(walks, [](const Walk& walk) { return !walk.strides.empty() && walk.strides.back() > 1; }))
    return false;
  const auto sizes = common_sizes(walks, next.elements_);
  if (!sizes || static_cast<int32_t>(sizes->size()) > kMaxFusedDimensions) return false;
  // The bits of a series depend on an element's position in its piece, so the pieces must be those of the single op.
  const bool series = std::ranges::any_of(next.steps_, [](const Step& each) { return is_series(each.opcode); });
  if (series && !std::ranges::all_of(walks, [](const Walk& walk) { return walk.dense(); })) return false;
  *this = std::move(next);
  return true;
}

FusedGroup::Result FusedGroup::result(const std::vector<BufferId>& kept) const {
  Result result;
  const std::vector<int64_t> sizes = common_sizes(walks(), elements_).value();
  FusedProgram& program = result.program;
  program.inputs = static_cast<int32_t>(inputs_.size());
  program.constants = constants_;
  for (const WalkedView& input : inputs_) result.inputs.push_back(over(input, sizes));
  const auto value_of = [&](const Reference& reference) {
    switch (reference.kind) {
      case Reference::Kind::input:
        return reference.index;
      case Reference::Kind::constant:
        return program.inputs + reference.index;
      case Reference::Kind::step:
        return program.first_step() + reference.index;
    }
    return 0;
  };
  for (const Step& step : steps_) {
    FusedProgram::Step& added = program.steps.emplace_back();
    added.opcode = step.opcode;
    added.dtype = step.dtype;
    check(static_cast<int>(step.operands.size()) == operands_of(step.opcode), "an opcode with other operands");
    for (size_t i = 0; i < step.operands.size(); ++i) added.operands[i] = value_of(step.operands[i]);
  }
  for (const Written& written : written_) {
    if (std::ranges::find(kept, written.view.buffer) == kept.end()) continue;
    program.outputs.push_back(program.first_step() + written.step);
    result.outputs.push_back(over(written.view, sizes));
  }
  return result;
}

Walk walk_of(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, const std::vector<int>& order) {
  Walk walk;
  for (const int d : order) {
    if (sizes[d] == 1) continue;
    if (!walk.sizes.empty() && walk.strides.back() == strides[d] * sizes[d]) {
      walk.sizes.back() *= sizes[d];
      walk.strides.back() = strides[d];
    } else {
      walk.sizes.push_back(sizes[d]);
      walk.strides.push_back(strides[d]);
    }
  }
  return walk;
}

std::optional<std::vector<int64_t>> broadcast_strides(const View& view, const std::vector<int64_t>& sizes) {
  if (view.sizes.size() > sizes.size()) return std::nullopt;
  std::vector<int64_t> strides(sizes.size(), 0);
  const size_t missing = sizes.size() - view.sizes.size();
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] == sizes[missing + d])
      strides[missing + d] = view.strides[d];
    else if (view.sizes[d] != 1)
      return std::nullopt;
  }
  return strides;
}

std::vector<int> memory_order(const View& view) {
  std::vector<int> order(view.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return view.strides[a] > view.strides[b]; });
  return order;
}

std::optional<std::vector<int64_t>> common_sizes(const std::vector<Walk>& walks, int64_t elements) {
  // Numbers of elements within one step of each dimension: boundaries that the loop must have.
  std::set<int64_t> boundaries = {1, elements};
  for (const Walk& walk : walks) {
    int64_t within = 1;
    for (size_t d = walk.sizes.size(); d-- > 0;) boundaries.insert(within *= walk.sizes[d]);
  }
  std::vector<int64_t> sizes;
  int64_t last = 1;
  for (const int64_t boundary : boundaries) {
    if (boundary % last != 0) return std::nullopt;
    if (boundary > last) sizes.insert(sizes.begin(), boundary / last);
    last = boundary;
  }
  return sizes;
}

std::vector<int64_t> strides_over(const Walk& walk, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 0);
  size_t d = walk.sizes.size();
  int64_t stride = 0, left = 1;  // of the walk's current dimension
  for (size_t i = sizes.size(); i-- > 0;) {
    if (left == 1 && d > 0) {
      stride = walk.strides[--d];
      left = walk.sizes[d];
    }
    strides[i] = stride;
    stride *= sizes[i];
    left /= sizes[i];
  }
  return strides;
}

}  // namespace plimsoll
