// Declares families of operators whose shapes on the plan device are compared with those of the CPU.
#pragma once

#include <torch/types.h>
#include <torch/utils.h>

#include <functional>
#include <string>
#include <vector>

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

/// Returns one entry for each operator family that models use.
std::vector<Family> families();
/// Returns the families whose Meta kernels libtorch has in Python only.
std::vector<Family> python_families();

}  // namespace plimsoll::testing
