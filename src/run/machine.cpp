// Determines which instruction sets run on the CPU (our own kernels, libtorch, oneDNN and MKL each choose theirs), the
// choices between kernels that this machine has, and the device to use.
#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/verbose_wrapper.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string_view>

#include "device/backend.h"
#include "ops/attention/attention_cpu.h"
#include "ops/block_products_cpu.h"
#include "ops/cpu_capability.h"
#include "ops/kernel_choice.h"
#include "ops/loss/loss_kernel.h"
#include "ops/matmul_throughput.h"
#include "plimsoll/machine.h"

namespace plimsoll {
namespace {

/// A redirection of standard output to a file of its own, for its lifetime.
class CaughtOutput {
 public:
  CaughtOutput() {
    std::fflush(stdout);
    file_ = memfd_create("printed", MFD_CLOEXEC);
    before_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    caught_ = file_ >= 0 && before_ >= 0 && dup2(file_, STDOUT_FILENO) >= 0;
  }
  ~CaughtOutput() {
    restore();
    if (file_ >= 0) close(file_);
    if (before_ >= 0) close(before_);
  }
  CaughtOutput(const CaughtOutput&) = delete;
  CaughtOutput& operator=(const CaughtOutput&) = delete;

  /// Returns the text so far, and ends the redirection; empty if output could not be redirected.
  std::string text() {
    if (!caught_) return {};
    restore();
    std::string text(static_cast<size_t>(std::max<off_t>(0, lseek(file_, 0, SEEK_END))), '\0');
    const ssize_t got = pread(file_, text.data(), text.size(), 0);
    text.resize(static_cast<size_t>(std::max<ssize_t>(0, got)));
    return text;
  }

 private:
  void restore() {
    if (!caught_) return;
    std::fflush(stdout);
    dup2(before_, STDOUT_FILENO);
    caught_ = false;
  }

  int file_ = -1, before_ = -1;
  bool caught_ = false;
};

/// Returns the text that `work` writes to standard output by any means; empty if it cannot be redirected.
std::string printed_by(const std::function<void()>& work) {
  CaughtOutput output;
  work();
  return output.text();
}

void set_onednn(int level) {
  torch::verbose::_mkldnn_set_verbose(level);
}
void set_mkl(int level) {
  torch::verbose::_mkl_set_verbose(level);
}

/// A scope in which a library's messages are on.
template <void (*kSet)(int)>
struct Messages {
  Messages() { kSet(1); }
  ~Messages() { kSet(0); }
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;
};

/// Returns the text after `start` up to `end` or the line's end; empty if `start` is not there.
std::string between(std::string_view text, std::string_view start, std::string_view end) {
  const size_t at = text.find(start);
  if (at == text.npos) return {};
  text.remove_prefix(at + start.size());
  text = text.substr(0, text.find('\n'));
  return std::string(text.substr(0, text.find(end)));
}

/// Returns oneDNN's name of the kernel for a matmul of `type`.
std::string product_kernel(at::ScalarType type) {
  const at::Tensor a = at::ones({64, 64}, type);
  const std::string printed = printed_by([&] { at::mm(a, a); });
  return between(printed, ",exec,cpu,matmul,", ",");
}

CpuInstructions ask() {
  const at::NoGradGuard no_grad;
  CpuInstructions result;
  result.plimsoll = name_of(cpu_capability());
  result.plimsoll_highest = name_of(highest_cpu_capability());
  result.libtorch = at::get_cpu_capability();
  if (at::hasMKLDNN()) {
    const at::Tensor image = at::ones({1, 1, 4, 4}), weight = at::ones({1, 1, 3, 3});
    // Measures the products if that has not been done. It must not happen while messages are on, because its matmuls
    // are not the one to report.
    for (const DType dtype : {DType::bfloat16, DType::float16}) ops::float32_products(dtype);
    const Messages<set_onednn> messages;
    result.onednn = between(printed_by([&] {
                              at::mkldnn_convolution(image, weight, {}, {0, 0}, {1, 1}, {1, 1}, 1);
                            }),
                            ",cpu,isa:", "\n");
    result.bfloat16_product = product_kernel(at::kBFloat16);
    result.float16_product = product_kernel(at::kHalf);
  }
  if (at::hasMKL()) {
    const at::Tensor a = at::ones({64, 64});
    const Messages<set_mkl> messages;
    // "... for Intel(R) 64 architecture THE TEXT TO FIND, Lnx 2.60GHz ..."
    result.mkl = between(printed_by([&] { at::mm(a, a); }), " architecture ", ", Lnx");
  }
  return result;
}

}  // namespace

CpuInstructions cpu_instructions() {
  static const CpuInstructions known = ask();
  return known;
}

std::string_view own_instructions() {
  return name_of(cpu_capability());
}

std::vector<KernelChoice> kernel_choices() {
  ops::require_known_kernels();
  ops::choose_loss_kernels();
  if (ops::has_pair_products()) ops::pairs_are_faster();
  std::vector<KernelChoice> result;
  for (const ops::ChosenKernel& each : ops::chosen_kernels()) result.push_back({each.site, each.kernel, each.reason});
  return result;
}

void require_usable_device(const std::string& device) {
  backend_for(device);
}

}  // namespace plimsoll
