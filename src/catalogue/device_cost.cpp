#include "catalogue/device_cost.h"

#include <algorithm>

namespace plimsoll {

CostModel cost_model_of(const DeviceSpec& device, const KernelEfficiency& efficiency) {
  CostModel model;
  model.device = device.name;
  model.source = "catalogue";
  model.overhead_seconds = device.launch_seconds;
  // If device and host share their memory, offloading to the host frees nothing.
  model.host_link = device.unified_memory ? 0 : device.host_link * efficiency.link;
  if (model.host_link > 0) {  // the host's properties are not known
    model.disk_link = kTypicalDiskLink;
    model.host_bytes = kTypicalHostBytes;
  }
  const double bytes = device.memory_bandwidth * efficiency.bandwidth;
  // A device without units for a 16-bit type computes in float32.
  const double half = device.rates.fp16 > 0 ? device.rates.fp16 : device.rates.fp32;
  const double brain = device.rates.bf16 > 0 ? device.rates.bf16 : device.rates.fp32;
  const auto fill = [&](OpKind kind, double share) {
    model.rate(kind, DType::float64) = {device.rates.fp32 / 32 * share, bytes};
    model.rate(kind, DType::float32) = {device.rates.fp32 * share, bytes};
    model.rate(kind, DType::bfloat16) = {brain * share, bytes};
    model.rate(kind, DType::float16) = {half * share, bytes};
  };
  fill(OpKind::product, efficiency.product);
  fill(OpKind::loss_head, efficiency.product);
  fill(OpKind::convolution, efficiency.convolution);
  fill(OpKind::attention, efficiency.attention);
  for (OpKind kind : {OpKind::streaming, OpKind::reduction, OpKind::random, OpKind::update})
    for (OpRate& rate : model.rates[static_cast<int>(kind)]) rate = {0, bytes};
  return model;
}

}  // namespace plimsoll
