// Quantised weights on a GPU: the tests that the emulated kernels have.
#define PLIMSOLL_ON_GPU
#include "ops/quantized/quantized_cuda_test.cpp"
