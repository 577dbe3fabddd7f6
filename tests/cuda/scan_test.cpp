// Runs the tests of the emulated kernels of the causal convolution and the state-space scan on a GPU.
#define PLIMSOLL_ON_GPU
#include "ops/scan/scan_cuda_test.cpp"
