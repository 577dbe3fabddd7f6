// Runs the tests of the emulated kernels of the optimizers on a GPU.
#define PLIMSOLL_ON_GPU
#include "ops/optimizer/optimizer_cuda_test.cpp"
