// Writes and reads the state of a training if each rank has slices of it.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "collectives/exchange.h"

namespace plimsoll {

/// The tensors of a state that are slices, and the ranks that have them. Without an exchange no tensor is a slice.
struct SlicedState {
  std::map<std::string, std::vector<int64_t>> whole_sizes;  ///< sizes of the whole tensor, by name of a slice:
                                                            ///< NamedView::whole_sizes
  Exchange* exchange = nullptr;
  /// Throws if bytes of the state that were read were lost (Training::require_state); empty: no bytes can be lost. It
  /// is called before bytes are sent, and before a file with them gets its name.
  std::function<void()> require_state = {};

  bool is_slice(const std::string& name) const { return exchange && whole_sizes.contains(name); }
  /// Returns the sizes of the whole tensor.
  std::vector<int64_t> sizes_of(const std::string& name, const at::Tensor& tensor) const;
};

/// Calls `take` on the first rank with the bytes of the whole tensor, in order and in pieces of at most 1 MiB. Every
/// rank calls for_each_piece() for the same tensor. Calls SlicedState::require_state after bytes of the tensor were
/// read.
void for_each_piece(const std::string& name, const at::Tensor& tensor, const SlicedState& sliced,
                    const std::function<void(std::span<const std::byte>)>& take);

/// Sends the slices of this rank to the one that writes the checkpoint. All other ranks call it while that one runs
/// write_checkpoint().
void send_slices(const NamedTensors& state, const SlicedState& sliced);

/// Returns `tensors` in the order in which they are written: tensors with large elements first.
NamedTensors in_file_order(NamedTensors tensors);

}  // namespace plimsoll
