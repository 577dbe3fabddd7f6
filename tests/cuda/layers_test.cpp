// The tests that the emulated kernels have, on a GPU.
#define PLIMSOLL_ON_GPU
#include "ops/layers/layers_cuda_test.cpp"
