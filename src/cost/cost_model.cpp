#include "plimsoll/cost_model.h"

namespace plimsoll {

CostModel generic_cost_model() {
  CostModel model;
  model.device = "a device of 100 TFLOP/s and 1 TB/s";
  model.source = "generic";
  for (auto& kind : model.rates) kind.fill({0, 1e12});
  for (OpKind kind : {OpKind::product, OpKind::convolution, OpKind::loss_head})
    model.rates[static_cast<int>(kind)].fill({100e12, 1e12});
  model.rates[static_cast<int>(OpKind::attention)].fill({50e12, 1e12});
  model.gpu.is_gpu = true;
  model.overhead_seconds = 5e-6;
  model.host_link = 25e9;
  model.disk_link = kTypicalDiskLink;
  model.host_bytes = kTypicalHostBytes;
  return model;
}

}  // namespace plimsoll
