// The functions of CUDA's driver that the runtime has no counterpart of. They are asked of the runtime by name, so that
// nothing is linked with the driver, which machines without a device do not have.
#pragma once

#include <cuda.h>

namespace plimsoll::cuda {

struct Driver {
  decltype(&cuMemAddressReserve) address_reserve;
  decltype(&cuMemAddressFree) address_free;
  decltype(&cuMemGetAllocationGranularity) granularity;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;
  decltype(&cuDeviceGetAttribute) attribute;
};

/// Throws UserError (failure), naming it, if the driver lacks one.
const Driver& driver();

}  // namespace plimsoll::cuda
