// The optimizers' kernels on a GPU: the tests that the emulated kernels have.
#define PLIMSOLL_ON_GPU
#include "ops/optimizer/optimizer_cuda_test.cpp"
