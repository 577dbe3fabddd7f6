#include "run/optimizer/update_step.h"

#include <ATen/ATen.h>

#include "collectives/exchange_ops.h"
#include "ops/optimizer/gradient_norm.h"
#include "ops/optimizer/ops.h"
#include "plimsoll/error.h"

namespace plimsoll {

std::vector<at::Tensor> UpdateStep::make_scalars(const std::vector<OptimizedParameter>& parameters) {
  const auto device = parameters.empty() ? at::Device(at::kCPU) : parameters[0].value.device();
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  norms_ = at::zeros({static_cast<int64_t>(parameters.size())}, options);
  total_ = at::zeros({}, options);
  grad_scale_ = at::zeros({}, options);
  skipped_ = at::zeros({}, options);
  std::vector<at::Tensor> made{norms_, total_, grad_scale_, skipped_};
  block_sums_.clear();
  int64_t blocks = 0, ranks = 0;
  const auto add = [&] {
    if (blocks > 0) block_sums_.push_back(at::zeros({ranks * blocks}, options.dtype(at::kDouble)));
    blocks = 0;
  };
  for (const OptimizedParameter& parameter : parameters) {
    if (!parameter.slice) continue;
    ranks = parameter.slice->ranks;
    blocks += parameter.slice->elements / ops::kNormBlock;
    if (!waits_for_all()) add();
  }
  add();
  made.insert(made.end(), block_sums_.begin(), block_sums_.end());
  return made;
}

// Norms of sliced gradients. They need the block sums of all ranks, which are exchanged for all gradients in one
// exchange, or for each gradient.
class UpdateStep::SlicedNorms {
 public:
  explicit SlicedNorms(UpdateStep& step) : step_(step) {}

  void add(const OptimizedParameter& parameter, int64_t index) {
    const optimizer::ParameterSlice& slice = *parameter.slice;
    const int64_t blocks = slice.elements / ops::kNormBlock;
    ranks_ = slice.ranks;
    const at::Tensor& sums = step_.block_sums_.at(next_);
    ops::gradient_block_sums_(sums, parameter.gradient, slice.rank * sums.numel() / ranks_ + begun_);
    index_.push_back(index);
    first_.push_back(begun_);
    blocks_.push_back(blocks);
    begun_ += blocks;
    if (!step_.waits_for_all()) finish();
  }

  // Skips a parameter without a gradient.
  void skip() {
    if (!step_.waits_for_all()) ++next_;
  }

  void finish() {
    if (index_.empty()) return;
    const at::Tensor& sums = step_.block_sums_.at(next_++);
    all_gather_(sums, ranks_);
    ops::norms_of_blocks_(step_.norms_, step_.skipped_, sums, ranks_, index_, first_, blocks_);
    index_.clear(), first_.clear(), blocks_.clear();
    begun_ = 0;
  }

 private:
  UpdateStep& step_;
  size_t next_ = 0;  // index into block_sums_
  int64_t begun_ = 0, ranks_ = 1;
  std::vector<int64_t> index_, first_, blocks_;
};

UpdateOutputs UpdateStep::run(const std::vector<OptimizedParameter>& parameters, const UpdateInputs& inputs,
                              const OnPiece& on_piece) {
  using Kind = UpdatePiece::Kind;
  const auto piece = [&](Kind kind, int64_t index = -1) {
    if (on_piece) on_piece(kind, index);
  };
  const auto count = static_cast<int64_t>(parameters.size());
  check(norms_.defined() && norms_.numel() == count, "the scalars of these parameters are made first");
  bool any = false;
  for (const OptimizedParameter& parameter : parameters) any = any || parameter.gradient.defined();
  if (!any)
    throw UserError(
        "no parameter has a gradient: the step's loss depends on parameters only through operators whose gradient is "
        "zero");

  piece(Kind::begin);
  SlicedNorms sliced(*this);
  skipped_.zero_();
  grad_scale_.copy_(inputs.loss_scale);
  for (int64_t i = 0; i < count; ++i) {
    if (!parameters[i].gradient.defined()) {
      if (parameters[i].slice) sliced.skip();
      continue;
    }
    piece(Kind::norm, i);
    const OptimizedParameter& parameter = parameters[i];
    if (parameter.slice) {
      sliced.add(parameter, i);
      continue;
    }
    const bool packed = parameter.gradient_scales.defined();
    ops::gradient_norm_(norms_, skipped_,
                        packed ? ops::block_norm(parameter.gradient, parameter.gradient_scales) : parameter.gradient,
                        i);
  }
  piece(Kind::total);
  sliced.finish();
  // Computed in float64, because the squares of large finite norms would overflow in float32.
  total_.copy_(at::linalg_vector_norm(norms_, 2, at::IntArrayRef{}, false, at::kDouble) / inputs.loss_scale);
  if (waits_for_all()) piece(Kind::clip);
  if (max_grad_norm_ > 0) {
    // Not-a-number if the total norm is not finite, although each single norm was.
    const at::Tensor zero = total_ * 0;
    skipped_.copy_(at::maximum(skipped_, zero.ne(zero).to(at::kFloat)));
    grad_scale_.div_((max_grad_norm_ / (total_ + 1e-6)).clamp_max(1.0));
  }
  for (int64_t i = 0; i < count; ++i) {
    if (!parameters[i].gradient.defined()) continue;
    piece(Kind::update, i);
    optimizer_.update_one(parameters[i], i, {inputs.learning_rate, grad_scale_, skipped_});
    if (parameters[i].slice && !parameters[i].slice->apart)
      all_gather_(parameters[i].slice->padded, parameters[i].slice->ranks);
  }
  piece(Kind::finish);
  optimizer_.count_step(skipped_);
  return {total_, skipped_};
}

}  // namespace plimsoll
