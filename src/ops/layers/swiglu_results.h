// Declares the checks and results of swiglu and geglu, for the kernels of every device. Each function throws UserError
// for tensors that do not belong together, and returns a result that is not filled yet. `op` is the operator's name in
// messages. The Meta kernels use these functions, so that a kernel allocates exactly the results that were planned.
#pragma once

#include <ATen/core/Tensor.h>

namespace plimsoll::ops {

at::Tensor gated_result(const char* op, const at::Tensor& gate_up);
at::Tensor gated_gradient(const char* op, const at::Tensor& grad, const at::Tensor& gate_up);

}  // namespace plimsoll::ops
