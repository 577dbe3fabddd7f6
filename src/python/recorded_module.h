// Declares a module and a step whose model and loss are functions of the caller's language, called through a C pointer.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plimsoll/training.h"

namespace plimsoll::python {

/// A request to the caller.
enum class Request : int64_t {
  make_model = 0,       ///< make the model, and pass each parameter and buffer to Exchange::add()
  compute_loss = 1,     ///< compute the loss of Exchange::inputs, and pass it to Exchange::loss
  training_mode = 2,    ///< set the model to training mode
  evaluation_mode = 3,  ///< set the model to evaluation mode
  schedule = 4,         ///< nothing: a candidate schedule is computed next
};

/// Answers a request; 0: done. Otherwise the caller has kept its own error, and CallbackFailed is thrown.
using Callback = int (*)(int64_t request);

/// Thrown where a callback failed. It passes through the recorder to the caller, who has the error.
struct CallbackFailed : std::exception {
  const char* what() const noexcept override { return "the model or the loss raised an exception"; }
};

/// Calls `callback`, and throws CallbackFailed if it failed.
void call(Callback callback, Request request);

/// The tensors that pass between the recorder and a callback.
struct Tensors {
  struct Member {
    std::string name;  ///< dotted path
    at::Tensor tensor;
    bool is_parameter = false;
  };
  std::vector<Member> members;               ///< parameters and buffers of the model
  std::map<std::string, at::Tensor> inputs;  ///< inputs of a micro batch
  at::Tensor loss;
};

/// An input of a micro batch. A first size of -1 is the number of samples.
struct Input {
  std::string name;
  std::vector<int64_t> sizes;
  c10::ScalarType dtype;
};

/// Returns the step whose model and loss `callback` makes, for micro batches of `samples` samples. `tensors` must
/// outlive the step. The model registers each member under its dotted path, in submodules that this makes.
Step recorded_step(Callback callback, Tensors& tensors, const std::vector<Input>& inputs, int64_t samples,
                   const Replacements& replacements);

}  // namespace plimsoll::python
