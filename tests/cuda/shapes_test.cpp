// Tests that libtorch's kernels for CUDA make results of the recorded sizes, strides and dtypes. Without a device it
// runs on the dry one (cuda_dry), which has no values.
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "cuda/needs_gpu.h"
#include "plimsoll/training.h"
#include "record/shape_family.h"

namespace plimsoll {
namespace {

using testing::families;
using testing::Family;
using testing::python_families;
using torch::Tensor;

struct One : torch::nn::Module {
  Tensor weight = register_parameter("weight", torch::ones({1}));
};

Step step_of(const Family& family) {
  Step step;
  step.model = [] { return std::make_shared<One>(); };
  step.inputs = {{"x", {1}, torch::kFloat32}};
  step.loss = [run = family.run](torch::nn::Module& model, const StepInputs& in) {
    Tensor loss = static_cast<One&>(model).weight.sum() + in["x"].sum();
    for (const Tensor& tensor : run())
      if (!tensor.is_complex()) loss = loss + tensor.detach().to(torch::kFloat).sum();
    return loss;
  };
  return step;
}

class CudaShapes : public ::testing::TestWithParam<size_t> {};

TEST_P(CudaShapes, AreThoseOfThePlan) {
  PLIMSOLL_NEEDS_GPU();
  const size_t count = families().size();
  const Family family = GetParam() < count ? families()[GetParam()] : python_families()[GetParam() - count];
  SCOPED_TRACE(family.name);
  // The run compares each result with the recorded one.
  Training training(step_of(family), {.device = "cuda"});
  training.start();
  training.step({{{"x", torch::ones({1})}}}, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Families, CudaShapes,
                         ::testing::Range<size_t>(0, families().size() + python_families().size()));

}  // namespace
}  // namespace plimsoll
