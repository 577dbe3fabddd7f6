// Which instruction sets run on the CPU: our own kernels', libtorch's, oneDNN's and MKL's choose theirs each.
#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <ATen/native/verbose_wrapper.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string_view>

#include "ops/cpu_capability.h"
#include "plimsoll/machine.h"

namespace plimsoll {
namespace {

/// What `work` writes to standard output, by whatever means. Empty where it cannot be caught.
std::string printed_by(const std::function<void()>& work) {
  std::fflush(stdout);
  const int file = memfd_create("printed", MFD_CLOEXEC), before = dup(STDOUT_FILENO);
  if (file < 0 || before < 0 || dup2(file, STDOUT_FILENO) < 0) {
    if (file >= 0) close(file);
    if (before >= 0) close(before);
    return {};
  }
  work();
  std::fflush(stdout);
  dup2(before, STDOUT_FILENO);
  close(before);
  std::string text(static_cast<size_t>(std::max<off_t>(0, lseek(file, 0, SEEK_END))), '\0');
  const ssize_t got = pread(file, text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, got)));
  close(file);
  return text;
}

/// From behind `start` up to `end` or the line's end; empty where `start` is not there.
std::string between(std::string_view text, std::string_view start, std::string_view end) {
  const size_t at = text.find(start);
  if (at == text.npos) return {};
  text.remove_prefix(at + start.size());
  text = text.substr(0, text.find('\n'));
  return std::string(text.substr(0, text.find(end)));
}

/// The kernel of a product of `type`, as oneDNN calls it.
std::string product_kernel(at::ScalarType type) {
  const at::Tensor a = at::ones({64, 64}, type);
  const std::string printed = printed_by([&] { at::mm(a, a); });
  return between(printed, ",exec,cpu,matmul,", ",");
}

CpuInstructions ask() {
  const at::NoGradGuard no_grad;
  CpuInstructions result;
  result.plimsoll = name_of(cpu_capability());
  result.plimsoll_greatest = name_of(greatest_cpu_capability());
  result.libtorch = at::get_cpu_capability();
  if (at::hasMKLDNN()) {
    const at::Tensor image = at::ones({1, 1, 4, 4}), weight = at::ones({1, 1, 3, 3});
    torch::verbose::_mkldnn_set_verbose(1);
    result.onednn = between(printed_by([&] {
                              at::mkldnn_convolution(image, weight, {}, {0, 0}, {1, 1}, {1, 1}, 1);
                            }),
                            ",cpu,isa:", "\n");
    result.bfloat16_product = product_kernel(at::kBFloat16);
    result.float16_product = product_kernel(at::kHalf);
    torch::verbose::_mkldnn_set_verbose(0);
  }
  if (at::hasMKL()) {
    const at::Tensor a = at::ones({64, 64});
    torch::verbose::_mkl_set_verbose(1);
    // "... for Intel(R) 64 architecture WHAT WE WANT, Lnx 2.60GHz ..."
    result.mkl = between(printed_by([&] { at::mm(a, a); }), " architecture ", ", Lnx");
    torch::verbose::_mkl_set_verbose(0);
  }
  return result;
}

}  // namespace

CpuInstructions cpu_instructions() {
  static const CpuInstructions known = ask();
  return known;
}

}  // namespace plimsoll
