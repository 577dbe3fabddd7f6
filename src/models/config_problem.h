// Declares the error of a model's configuration that the job file and the model report. No libtorch.
#pragma once

#include <string>

namespace plimsoll::model {

struct ConfigProblem {
  const char* key;      ///< key of the job file
  std::string message;  ///< the error and the allowed values
};

}  // namespace plimsoll::model
