// Compiled for AVX2 and FMA (src/CMakeLists.txt): none of its code may run on other processors.
#ifdef CPU_CAPABILITY_AVX2
#define PLIMSOLL_SERIES_STEP step_avx2
#include "ops/fused/fused_series_kernels.h"
#endif
