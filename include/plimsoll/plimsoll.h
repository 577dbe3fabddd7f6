// All of Plimsoll's public interface.
#pragma once

#include "plimsoll/bytes.h"              // IWYU pragma: export
#include "plimsoll/checkpoint.h"         // IWYU pragma: export
#include "plimsoll/compare.h"            // IWYU pragma: export
#include "plimsoll/cost_model.h"         // IWYU pragma: export
#include "plimsoll/devices.h"            // IWYU pragma: export
#include "plimsoll/error.h"              // IWYU pragma: export
#include "plimsoll/fine_tuning.h"        // IWYU pragma: export
#include "plimsoll/fmri_autoencoder.h"   // IWYU pragma: export
#include "plimsoll/job.h"                // IWYU pragma: export
#include "plimsoll/linear.h"             // IWYU pragma: export
#include "plimsoll/liveness.h"           // IWYU pragma: export
#include "plimsoll/machine.h"            // IWYU pragma: export
#include "plimsoll/model_config.h"       // IWYU pragma: export
#include "plimsoll/models.h"             // IWYU pragma: export
#include "plimsoll/placement.h"          // IWYU pragma: export
#include "plimsoll/placement_csv.h"      // IWYU pragma: export
#include "plimsoll/plan.h"               // IWYU pragma: export
#include "plimsoll/plan_page.h"          // IWYU pragma: export
#include "plimsoll/plan_scope.h"         // IWYU pragma: export
#include "plimsoll/solver_parameters.h"  // IWYU pragma: export
#include "plimsoll/trace.h"              // IWYU pragma: export
#include "plimsoll/train_job.h"          // IWYU pragma: export
#include "plimsoll/training.h"           // IWYU pragma: export
