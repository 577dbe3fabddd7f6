// The causal convolution and the state-space scan on a GPU: the tests that the emulated kernels have.
#define PLIMSOLL_ON_GPU
#include "ops/cuda/scan_test.cpp"
