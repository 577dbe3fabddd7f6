// Declares functions of CUDA's driver that have no counterpart in the runtime. They are looked up by name through the
// runtime. Nothing is linked with the driver, because machines without a device do not have it.
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

/// Returns the functions. Throws UserError (failure), naming the function, if the driver lacks one.
const Driver& driver();

}  // namespace plimsoll::cuda
