// Declares the report on this machine: its memory, processor, instruction sets and measured rates.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/cost_model.h"
#include "plimsoll/device_work.h"

namespace plimsoll {

/// A list of the instruction sets in use, each under its library's name for it; empty: not known. The variable in
/// parentheses restricts the library to a smaller set.
struct CpuInstructions {
  std::string plimsoll;          ///< Plimsoll's own kernels: "default", "avx2" or "avx512" (PLIMSOLL_CPU_CAPABILITY)
  std::string plimsoll_highest;  ///< largest of these sets that the processor has
  std::string libtorch;          ///< libtorch: "AVX512" (ATEN_CPU_CAPABILITY)
  std::string onednn;            ///< oneDNN: "Intel AVX2" (ONEDNN_MAX_CPU_ISA)
  std::string mkl;               ///< MKL (MKL_ENABLE_INSTRUCTIONS); reported for Intel's processors only
  std::string bfloat16_product;  ///< oneDNN's kernel for libtorch's bfloat16 matmuls; empty: not one of oneDNN's
  std::string float16_product;
};

/// A choice between two kernels of the same op that was made for this machine.
struct KernelChoice {
  std::string op;      ///< op, type and size class: "loss_head.float32"
  std::string kernel;  ///< "blocks", "libtorch", "pairs" or "float32"
  std::string reason;  ///< "PLIMSOLL_KERNELS", "as the run began", or its time and the other kernel's
};

/// Returns the choices between kernels for this machine. The first call on a machine measures those that are not stored
/// in the cache folder, each in about 0.5 s. Throws UserError for a wrong PLIMSOLL_KERNELS.
std::vector<KernelChoice> kernel_choices();

/// Returns the instruction sets that our kernels, libtorch, oneDNN and MKL use. For oneDNN and MKL it runs a small
/// convolution and small matmuls with their verbose messages on. Runs once in a process: later calls return the first
/// result. Text that other threads write to standard output meanwhile is lost. Throws UserError for a wrong
/// PLIMSOLL_CPU_CAPABILITY or PLIMSOLL_16BIT_PRODUCTS.
CpuInstructions cpu_instructions();

/// A report on a device other than the CPU: measured rates, or why there are none.
struct DeviceReport {
  std::string device;  ///< value of a job's `device`: cuda | rocm | mps
  std::string name;    ///< name by its driver; empty: this build cannot use the device, and `failure` says why
  CostModel cost;      ///< measured rates
  /// Kernels that the device refused, each with the reason: their rates in `cost` are those of `catalogue`.
  std::vector<std::string> refused;
  CostModel catalogue;        ///< rates of the catalogue, or typical ones, which the measured rates replace in plans
  bool measured_now = false;  ///< false: the rates are from the file
  bool stored = false;        ///< the rates are in a file
  DeviceWork work;            ///< summary of a small training on it
  std::string failure;        ///< error that ended the measurement or the training; empty: none
};

/// A report on the memory and the processor of this machine, with measured rates.
struct MachineReport {
  std::string processor;                    ///< system's name of the processor, and libtorch's version
  std::string instructions;                 ///< instruction set of libtorch's kernels: "AVX512"
  int cores = 0;                            ///< cores that this process may run on
  int threads = 0;                          ///< CPU threads that the rates are for
  std::optional<int64_t> available_memory;  ///< bytes
  CostModel cost;                           ///< rates with source "measured"
  bool measured_now = false;                ///< false: the rates are from the file
  bool stored = false;                      ///< the rates are in a file of `folder`
  /// Processors that other programs kept busy while the rates were measured, beyond those that `threads` leave free.
  double shared_processors = 0;
  size_t ops_timed = 0;                            ///< distinct ops with a measured time
  std::filesystem::path folder;                    ///< folder of the measurements; empty: they cannot be stored
  bool nvidia_driver = false, amd_driver = false;  ///< true: a library of the driver can be loaded
  std::vector<DeviceReport> devices;               ///< devices other than the CPU
};

/// More shared processors (MachineReport::shared_processors) than this make rates too low to be stored.
inline constexpr double kMaxSharedProcessors = 0.25;

/// Measures this machine for `threads` CPU threads (0: all cores). Measurements on file are read instead, unless
/// `again`. Measuring takes a few seconds and about 200 MiB. Rates that were measured next to other programs on the
/// same processors are stored only with `store_in_any_case`.
MachineReport inspect_machine(int threads = 0, bool again = false, bool store_in_any_case = false);

/// Returns the instruction set of Plimsoll's own kernels: "default", "avx2" or "avx512". Throws UserError (usage) for a
/// wrong PLIMSOLL_CPU_CAPABILITY.
std::string_view own_instructions();

/// Throws UserError (failure) if steps cannot run here on `device` (cpu | cuda | rocm | mps), and says what is missing:
/// hardware, a driver, or the support of this build.
void require_usable_device(const std::string& device);

}  // namespace plimsoll
