// Declares the condition that all replacements of libtorch's operators share.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>

namespace plimsoll {

/// Returns whether operators of Plimsoll can be called: they have a gradient, and neither forward-mode derivatives nor
/// functorch's transforms.
bool is_plainly_differentiated(std::initializer_list<const at::Tensor*> operands);

}  // namespace plimsoll
