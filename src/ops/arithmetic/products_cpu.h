// Products of 16-bit matrices on the CPU where the processor has no instructions for them: in float32 blocks.
//
// libtorch's own kernels of such products are 5 to 40 times as slow as float32's there. What they are is measured
// (ops/arithmetic/product_speed.h); where they are slow, aten::mm, addmm, bmm and baddbmm of bfloat16 or float16 widen
// blocks of their operands into bounded scratch, have float32's product sum them, and round each result once.
// Everything else of these operators is libtorch's as before.
//
// They take libtorch's place in its dispatcher, for the whole process: a model that runs eagerly computes the same bits
// as one that is planned, as it does with every other operator.
#pragma once

#include <ATen/core/Tensor.h>

namespace plimsoll::ops {

/// out = beta x self + alpha x a b, summed in float32 and rounded once. a [m, k], b [k, n] and out [m, n] are of one
/// 16-bit type, in any strides, and not empty; self is expanded to out's shape, or not defined where beta is 0. It may
/// be out. Scratch: product_scratch(m, k, n) bytes.
void product_in_blocks(const at::Tensor& out, const at::Tensor& self, const at::Tensor& a, const at::Tensor& b,
                       double beta, double alpha);

}  // namespace plimsoll::ops
