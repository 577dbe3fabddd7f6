// This machine: what it has, and how fast it was measured to be.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "plimsoll/cost_model.h"

namespace plimsoll {

/// Instruction sets that are really used, in the words of whoever uses them; empty where that is not known. Each may be
/// told to use less by a variable of its own.
struct CpuInstructions {
  std::string plimsoll;           ///< our own kernels: "default", "avx2" or "avx512" (PLIMSOLL_CPU_CAPABILITY)
  std::string plimsoll_greatest;  ///< the most of these that the processor has
  std::string libtorch;           ///< libtorch's: "AVX512" (ATEN_CPU_CAPABILITY)
  std::string onednn;             ///< oneDNN's: "Intel AVX2" (ONEDNN_MAX_CPU_ISA)
  std::string mkl;                ///< MKL's (MKL_ENABLE_INSTRUCTIONS); only of Intel's processors does it say which
  std::string bfloat16_product;   ///< oneDNN's kernel that libtorch's products run with; empty: none of oneDNN's
  std::string float16_product;
};

/// Asks our kernels and libtorch, and has oneDNN and MKL say what they run with, which takes a small convolution and
/// small products with their messages turned on. Once in a process: later calls give what the first one saw. What other
/// threads write to standard output meanwhile is lost. Throws UserError for a wrong PLIMSOLL_CPU_CAPABILITY
/// or PLIMSOLL_16BIT_PRODUCTS.
CpuInstructions cpu_instructions();

/// The memory and processor of this machine, and its measured rates.
struct MachineReport {
  std::string processor;                           ///< as the system names it, with libtorch's version
  std::string instructions;                        ///< what libtorch's kernels use: "AVX512"
  int cores = 0;                                   ///< that this process may run on
  int threads = 0;                                 ///< that rates are for
  std::optional<int64_t> available_memory;         ///< bytes
  CostModel cost;                                  ///< source: measured
  bool measured_now = false;                       ///< otherwise the rates are from the file
  size_t ops_timed = 0;                            ///< distinct ops with a time of their own
  std::filesystem::path folder;                    ///< of the measurements; empty: there is no place for them
  bool nvidia_driver = false, amd_driver = false;  ///< a library of theirs is there to be loaded
};

/// Measures this machine for `threads` CPU threads (0: all cores), once: what is on file is read, unless `again`. Takes
/// a few seconds and about 200 MiB where it measures.
MachineReport inspect_machine(int threads = 0, bool again = false);

/// Returns the instruction set of Plimsoll's own kernels: "default", "avx2" or "avx512". Throws UserError (usage) for a
/// wrong PLIMSOLL_CPU_CAPABILITY.
std::string_view own_instructions();

/// Throws UserError (failure) if steps cannot run here on `device` (cpu | cuda | rocm | mps), and says what is missing:
/// hardware, a driver, or the support of this build.
void require_usable_device(const std::string& device);

}  // namespace plimsoll
