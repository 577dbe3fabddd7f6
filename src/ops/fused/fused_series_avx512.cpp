// Compiled for AVX-512 (src/CMakeLists.txt): none of its code may run on other processors.
#ifdef CPU_CAPABILITY_AVX512
#define PLIMSOLL_SERIES_STEP step_avx512
#include "ops/fused/fused_series_kernels.h"
#endif
