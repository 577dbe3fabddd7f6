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

/// The names of a site, that is an op with its dtype and size class, and of the two kernels that it has.
struct KernelSite {
  std::string_view site, kernel, other;
};
/// All sites, whether or not this processor has a choice there.
constexpr std::array<KernelSite, 5> kKernelSites{{{"attention.bfloat16", "pairs", "float32"},
                                                  {"loss_head.bfloat16", "blocks", "libtorch"},
                                                  {"loss_head.bfloat16.small", "blocks", "libtorch"},
                                                  {"loss_head.float32", "blocks", "libtorch"},
                                                  {"loss_head.float32.small", "blocks", "libtorch"}}};

/// Two kernels that compute the same.
struct KernelPair {
  std::string_view site;                 ///< "loss_head.float32"
  std::string_view first;                ///< name of the usual kernel on this processor: "blocks"
  std::string_view second;               ///< name of the other one: "libtorch"
  std::function<void(bool second)> run;  ///< runs either kernel on a typical shape
};

/// The fraction of the usual kernel's time that the other one must stay below to be chosen. It is far from 1 so that
/// noise does not decide: a choice by noise would give two machines of one kind different bits.
constexpr double kClearlyFaster = 0.85;

/// Returns true if the second kernel is to be used. In this order the answer is: what PLIMSOLL_KERNELS says; what
/// keep_kernels() was told; what this process chose before; what `kernels.json` of the cache folder says; a measurement
/// of about 0.5 s on one thread, which is then stored. There is one file for each set of instruction masks; another
/// processor or libtorch replaces it. Processes that measure at the same time wait for each other and agree. Throws
/// UserError as require_known_kernels().
bool uses_second_kernel(const KernelPair& pair);

/// Throws UserError if PLIMSOLL_KERNELS has another form than "site=kernel,site=kernel", an unknown site, or a kernel
/// that its site does not have. Sites without a choice on this processor are allowed.
void require_known_kernels();

/// A choice that this process has made.
struct ChosenKernel {
  std::string site, kernel;
  std::string reason;  ///< "PLIMSOLL_KERNELS", "as the run began", or "0.83 ms; libtorch 1.20 ms"
};
/// Returns the choices made so far whose site begins with `prefix`, by site.
std::vector<ChosenKernel> chosen_kernels(std::string_view prefix = {});

/// Returns the same as PLIMSOLL_KERNELS takes them, for checkpoints: "loss_head.float32=blocks,…".
std::string kernels_text(std::string_view prefix = {});
/// Makes the choices those of `text`, except what PLIMSOLL_KERNELS says, for the rest of this process. No op may run
/// meanwhile. Text from another version may name unknown sites and kernels: they are ignored.
void keep_kernels(const std::string& text);

/// Returns the choices of a text of the form "site=kernel,site=kernel". Throws UserError that shows the part that has
/// no such form.
std::map<std::string, std::string> kernels_of(const std::string& text);

/// A scope, for tests, in which a site uses the kernel of this name. Not thread-safe.
class KernelScope {
 public:
  KernelScope(std::string_view site, std::string_view kernel);
  ~KernelScope();
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  std::string site_;
  std::vector<ChosenKernel> before_;  // one or none
};

}  // namespace plimsoll::ops
