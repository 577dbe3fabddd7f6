#include "cli/train/launcher.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "plimsoll/error.h"

namespace plimsoll::cli {

void refuse_several_processes() {
  // SLURM_NTASKS is of a whole allocation, in which a program may well be started once.
  for (const char* name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr) continue;
    const std::string_view text = value;
    int count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc() || end != text.data() + text.size() || count < 2) continue;
    throw UserError(fmt::format(
        "a launcher has started {} processes of this command ({}={}): training on several devices is not there yet; "
        "start it once, and gradient_accumulation_steps makes the effective batch of several",
        count, name, count));
  }
}

}  // namespace plimsoll::cli
