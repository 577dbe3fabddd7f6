// The causal convolution and the state-space scan on a GPU: the tests that the emulated kernels have.
#define PLIMSOLL_ON_GPU
#include "ops/scan/scan_cuda_test.cpp"
