// Implements kernel_choices(): all choices between kernels that this machine has.
#include "ops/arithmetic/block_products_cpu.h"
#include "ops/arithmetic/kernel_choice.h"
#include "ops/attention/attention_cpu.h"
#include "ops/loss/loss_kernel.h"
#include "plimsoll/machine.h"

namespace plimsoll {

std::vector<KernelChoice> kernel_choices() {
  ops::require_known_kernels();
  ops::choose_loss_kernels();
  if (ops::has_pair_products()) ops::pairs_are_faster();
  std::vector<KernelChoice> result;
  for (const ops::ChosenKernel& each : ops::chosen_kernels()) result.push_back({each.site, each.kernel, each.reason});
  return result;
}

}  // namespace plimsoll
