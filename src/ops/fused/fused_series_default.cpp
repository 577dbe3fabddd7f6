// Compiled for any processor.
#define PLIMSOLL_SERIES_STEP step_default
#include "ops/fused/fused_series_kernels.h"
