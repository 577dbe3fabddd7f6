// Which processor this is, and with which instructions it is used: what measurements hold for.
#pragma once

#include <string>

namespace plimsoll {

/// The variables that keep libraries from instructions which the processor has, as they are set: "ONEDNN_MAX_CPU_ISA=
/// AVX2"; several are separated by a blank. Empty where none is.
std::string instruction_masks();

/// The same as a part of a file's name.
std::string instruction_masks_in_a_name();

/// The processor, libtorch and the instruction set that it dispatches to, and instruction_masks().
std::string machine_name();

}  // namespace plimsoll
