// All of Plimsoll's public interface.
#pragma once

#include "plimsoll/bytes.h"       // IWYU pragma: export
#include "plimsoll/error.h"       // IWYU pragma: export
#include "plimsoll/job.h"         // IWYU pragma: export
#include "plimsoll/models.h"      // IWYU pragma: export
#include "plimsoll/plan.h"        // IWYU pragma: export
#include "plimsoll/plan_scope.h"  // IWYU pragma: export
#include "plimsoll/trace.h"       // IWYU pragma: export
#include "plimsoll/train_job.h"   // IWYU pragma: export
#include "plimsoll/training.h"    // IWYU pragma: export
