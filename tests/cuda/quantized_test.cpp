// Runs the tests of the emulated kernels of quantized weights on a GPU.
#define PLIMSOLL_ON_GPU
#include "ops/layers/quantized_cuda_test.cpp"
