// Runs the tests of the emulated kernels on a GPU.
#define PLIMSOLL_ON_GPU
#include "ops/attention/attention_cuda_test.cpp"
