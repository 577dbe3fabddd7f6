// Declares families of operators whose shapes on the plan device are compared with those of the CPU.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>
#include <string>
#include <vector>

#include "record/recording.h"

namespace plimsoll::testing {

struct Family {
  std::string name;
  std::function<std::vector<torch::Tensor>()> run;  // forward, then the gradients of what requires one
};

inline torch::Tensor leaf(std::vector<int64_t> sizes, torch::Dtype dtype = torch::kFloat) {
  return torch::rand(sizes, dtype).requires_grad_(true);
}

/// Returns the output and the gradients of its sum.
inline std::vector<torch::Tensor> with_gradients(const torch::Tensor& output, std::vector<torch::Tensor> leaves) {
  std::vector<torch::Tensor> all{output};
  output.sum().backward();
  for (torch::Tensor& tensor : leaves) all.push_back(tensor.grad());
  return all;
}

/// Expects tensors of the CPU's sizes, strides and dtypes from a family that is recorded.
inline void expect_shapes_of_the_cpu(const Family& family) {
  SCOPED_TRACE(family.name);
  const std::vector<torch::Tensor> expected = family.run();
  std::vector<torch::Tensor> planned;
  record([&](Recorder&) { planned = family.run(); });
  ASSERT_EQ(planned.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(is_plan(planned[i])) << i;
    EXPECT_EQ(planned[i].sizes(), expected[i].sizes()) << i;
    EXPECT_EQ(planned[i].strides(), expected[i].strides()) << i;
    EXPECT_EQ(planned[i].scalar_type(), expected[i].scalar_type()) << i;
  }
}

}  // namespace plimsoll::testing
