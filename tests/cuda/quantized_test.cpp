// Quantised weights on a GPU: the tests that the emulated kernels have.
#define PLIMSOLL_ON_GPU
#include "ops/cuda/quantized_test.cpp"
