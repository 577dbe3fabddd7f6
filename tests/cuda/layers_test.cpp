// Runs the tests of the emulated kernels on a GPU.
#define PLIMSOLL_ON_GPU
#include "ops/layers/layers_cuda_test.cpp"
