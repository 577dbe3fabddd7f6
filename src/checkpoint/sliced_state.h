// The state of a training of which each rank has slices.
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

/// Which tensors of a state are slices, and the ranks that have them. Without an exchange no tensor is one.
struct SlicedState {
  std::map<std::string, std::vector<int64_t>> whole_sizes;  ///< by name, of slices: NamedView::whole_sizes
  Exchange* exchange = nullptr;

  bool is_slice(const std::string& name) const { return exchange && whole_sizes.contains(name); }
  /// Sizes of the whole tensor.
  std::vector<int64_t> sizes_of(const std::string& name, const at::Tensor& tensor) const;
};

/// Calls `take` on the first rank with the bytes of the whole tensor, in order and in pieces of at most 1 MiB. Every
/// rank calls it for the same tensor.
void for_each_piece(const std::string& name, const at::Tensor& tensor, const SlicedState& sliced,
                    const std::function<void(std::span<const std::byte>)>& take);

/// The part of write_checkpoint() of the ranks that do not write: sends their slices to the one that does.
void send_slices(const NamedTensors& state, const SlicedState& sliced);

/// `tensors` in the order in which they are written: those with large elements first.
NamedTensors in_file_order(NamedTensors tensors);

}  // namespace plimsoll
