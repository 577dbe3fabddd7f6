// Declares the choice between two kernels of the same op by measurement on this machine. The kernels' results differ in
// rounding, so a choice is made once, kept in the cache folder, and kept by runs that resume.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::ops {

/// Two kernels that compute the same.
struct KernelPair {
  std::string_view site;                 ///< op, dtype and size class: "loss_head.float32"
  std::string_view first;                ///< the usual kernel's name: "blocks"
  std::string_view second;               ///< the other one's: "libtorch"
  std::function<void(bool second)> run;  ///< runs either kernel on a typical shape
  std::function<double()> now = {};      ///< seconds of a steady clock; empty: the machine's
};

/// The sites of the program: what PLIMSOLL_KERNELS may name, on every processor.
constexpr std::array<std::string_view, 7> kKernelSites{
    "attention.bfloat16",     "loss_head.bfloat16",      "loss_head.bfloat16.small",    "loss_head.float32",
    "loss_head.float32.avx2", "loss_head.float32.small", "loss_head.float32.small.avx2"};

/// The fraction of the usual kernel's time that the other one must stay below to be chosen. It is far from 1 so that
/// noise does not decide: a choice by noise would give two machines of one kind different bits.
constexpr double kClearlyFaster = 0.85;

/// Returns true if the second kernel is to be used. The answer is constant for the life of a process. In this order it
/// is: what PLIMSOLL_KERNELS says; what keep_kernels() was told; what `kernels.json` of the cache folder says (one file
/// for each processor, libtorch and set of instruction masks); a measurement of at most 0.5 s on one thread, which is
/// then stored. Throws UserError if PLIMSOLL_KERNELS is malformed or names an unknown site, or a kernel
/// that the site does not have.
bool uses_second_kernel(const KernelPair& pair);

/// A choice that this process has made.
struct ChosenKernel {
  std::string site, kernel;
  std::string reason;  ///< "PLIMSOLL_KERNELS", "as the run began", or "0.83 ms; libtorch 1.20 ms"
};
/// Returns the choices made so far, by site.
std::vector<ChosenKernel> chosen_kernels();

/// Returns the choices made so far as PLIMSOLL_KERNELS takes them: "loss_head.float32=blocks,…"; for checkpoints.
std::string kernels_text();
/// Makes later choices those of `text`. Text from another version may name unknown sites and kernels: they are ignored,
/// as are sites that were chosen before the call.
void keep_kernels(const std::string& text);

/// Returns the choices of a text of the form "site=kernel,site=kernel". Throws UserError that shows the part that has
/// no such form.
std::map<std::string, std::string> kernels_of(const std::string& text);

/// A scope, for tests, in which a site's second kernel is used or not. Not thread-safe.
class KernelScope {
 public:
  KernelScope(std::string_view site, bool second);
  ~KernelScope();
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  std::string site_;
  int before_;
};

}  // namespace plimsoll::ops
