#include "device/backend.h"
#include "plimsoll/machine.h"

namespace plimsoll {

void require_usable_device(const std::string& device) {
  backend_for(device);
}

}  // namespace plimsoll
