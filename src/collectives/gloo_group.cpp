#include "collectives/gloo_group.h"

#include <cstdlib>

#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO  // libtorch_cpu.so has Gloo; its headers need this macro
#endif
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace plimsoll {

c10::intrusive_ptr<c10d::Backend> make_gloo_group(const StorePointer& store, int rank, int size,
                                                  const std::string& address, std::chrono::milliseconds patience) {
  using c10d::ProcessGroupGloo;
  const auto options = ProcessGroupGloo::Options::create(patience);
  options->threads = 1;  // threads for collectives; sends and receives run on the thread of the device
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr && *interface != '\0') {
    options->devices.push_back(ProcessGroupGloo::createDeviceForInterface(interface));
  } else if (!address.empty()) {
    options->devices.push_back(ProcessGroupGloo::createDeviceForHostname(address));
  } else {
    options->devices.push_back(ProcessGroupGloo::createDefaultDevice());
  }
  return c10::make_intrusive<ProcessGroupGloo>(store, rank, size, options);
}

}  // namespace plimsoll
