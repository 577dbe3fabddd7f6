#include "run/micro_batch_inputs.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kIgnored = -100;  // the target that losses ignore, as in libtorch

}  // namespace

MicroBatchInputs::MicroBatchInputs(const Step& step, const TrainingOptions& options)
    : last_samples_(options.accumulate ? options.last_micro_batch : 0),
      samples_(ragged_steps() ? step.inputs.at(0).sizes.at(0) : 0) {
  for (const InputSpec& spec : step.inputs) {
    types_[spec.name] = spec.dtype;
    if (spec.values > 0) bounds_[spec.name] = spec.values;
  }
}

bool MicroBatchInputs::is_remainder(const MicroBatch& batch) const {
  return ragged_steps() && std::ranges::all_of(batch, [&](const auto& entry) {
           return entry.second.dim() > 0 && entry.second.size(0) == last_samples_;
         });
}

void MicroBatchInputs::require_in_range(const std::string& name, const at::Tensor& values) const {
  const auto bound = bounds_.find(name);
  if (bound == bounds_.end() || values.numel() == 0) return;
  const auto [least, most] = at::aminmax(values);
  const auto low = least.item<int64_t>(), high = most.item<int64_t>();
  if (low >= kIgnored && high < bound->second) return;
  throw UserError(
      fmt::format("input '{}' has values from {} to {}; they must be below {}", name, low, high, bound->second),
      UserError::Kind::failure);
}

void MicroBatchInputs::bind(Executor& executor, const Trace& trace, const MicroBatch& batch, int64_t rows) const {
  for (const NamedView& input : trace.inputs) {
    if (input.name == "loss_factor" || input.name == "loss_scale" || input.name == "learning_rate") continue;
    const auto found = batch.find(input.name);
    if (found == batch.end()) throw UserError(fmt::format("the micro batch has no '{}'", input.name));
    at::Tensor target = executor.tensor(input.view);
    if (rows > 0) target = target.narrow(0, 0, rows);
    const at::Tensor& source = found->second;
    const c10::ScalarType declared = types_.at(input.name);
    if (source.sizes() != target.sizes() ||
        (source.scalar_type() != declared && source.scalar_type() != target.scalar_type()))
      throw UserError(fmt::format(
          "input '{}' is {} [{}]; the step declares {} [{}]{}", input.name, c10::toString(source.scalar_type()),
          fmt::join(source.sizes(), ", "), c10::toString(declared), fmt::join(target.sizes(), ", "),
          rows > 0         ? " of the last micro batch"
          : ragged_steps() ? fmt::format(", and of the last of several micro batches {} samples", last_samples_)
                           : ""));
    if (target.device().is_cpu()) {
      target.copy_(source);
    } else {  // the host casts, so that only the bytes that the step reads are copied over the link
      check(target.is_contiguous(), "an input of the plan is not contiguous");
      require_in_range(input.name, source);
      const at::Tensor cast = source.to(target.scalar_type()).contiguous();
      executor.write(input.view, cast.const_data_ptr(), static_cast<int64_t>(cast.nbytes()));
    }
  }
}

}  // namespace plimsoll
