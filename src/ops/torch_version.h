// Declares the versions of libtorch that the sources compile with. What differs between 2.11 and 2.15:
//
// - Nodes of the autograd graph: std::shared_ptr, c10::intrusive_ptr in 2.15. NodePointer in record/loss_head.h.
// - Autocast: 2.15 has no cholesky, no qr and no overloads with names of dimensions, and casts rms_norm on CUDA and
//   linalg_matrix_sqrth. The tables in record/autocast.cpp take the operators that the dispatcher of the process has.
// - CUDAAllocator: 2.15 has attachOomRejectionObserver(). device/cuda/cuda_allocator.cpp.
// - NCCL of the wheel: 2.28, 2.30 in 2.15. kNcclMinor, and PLIMSOLL_TORCH_NCCL in cmake/Torch.cmake.
#pragma once

#include <torch/version.h>

static_assert(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 11 && TORCH_VERSION_MINOR <= 15,
              "the sources are for libtorch 2.11 to 2.15 (cmake/Torch.cmake)");

namespace plimsoll {

/// The minor version of NCCL 2 that libtorch's wheel is compiled with. The layout of the options of c10d's group
/// depends on it.
inline constexpr int kNcclMinor = TORCH_VERSION_MINOR >= 14 ? 30 : TORCH_VERSION_MINOR >= 12 ? 29 : 28;

}  // namespace plimsoll
