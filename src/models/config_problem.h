// What is wrong with a model's configuration, as the job file and the model say it. No libtorch.
#pragma once

#include <string>

namespace plimsoll::model {

struct ConfigProblem {
  const char* key;      ///< of the job file
  std::string message;  ///< what is wrong and what is allowed
};

}  // namespace plimsoll::model
