// Declares the identity of the processor and of the instructions that libraries use on it. Measurements are valid for
// one identity.
#pragma once

#include <string>

namespace plimsoll {

/// Returns the set environment variables that keep libraries from using instructions of the processor:
/// "ONEDNN_MAX_CPU_ISA=AVX2". Several are separated by a blank. Empty if none is set.
std::string instruction_masks();

/// Returns instruction_masks() as a part of a file's name.
std::string instruction_masks_in_a_name();

/// Returns the processor, libtorch, the instruction set that libtorch dispatches to, and instruction_masks().
std::string machine_name();

}  // namespace plimsoll
