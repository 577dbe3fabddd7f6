// Makes c10d's process group on Gloo. It has a file of its own because its headers need those of Gloo
// (third_party/gloo).
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "collectives/store.h"

namespace plimsoll {

/// Connects every rank with every other. `address` is that of this host for the other ranks; empty: the address of its
/// name. The variable GLOO_SOCKET_IFNAME names an interface instead, as in other programs. Throws what c10d throws.
c10::intrusive_ptr<c10d::Backend> make_gloo_group(const StorePointer& store, int rank, int size,
                                                  const std::string& address, std::chrono::milliseconds patience);

}  // namespace plimsoll
