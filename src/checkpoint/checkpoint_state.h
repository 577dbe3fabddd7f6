// Declares the state of a training as named tensors, whole and as the slices that ranks hold.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "collectives/exchange.h"
#include "safetensors/safetensors.h"

namespace plimsoll {

/// A group of tensors of the job that are made from tensors of the file, because name, type or size differ.
struct StateConversion {
  std::vector<std::string> from;  ///< names in the file; none if zeros, or the weights, are the source
  std::vector<std::string> to;    ///< names in the job
  std::function<void()> apply;    ///< writes the job's tensors, once the parameters are loaded; cannot fail
};

/// Returns the conversions that are exact: 8 and 4 bits to float32; 8 and 4 bits to bfloat16 if no value is too small
/// for it; 16 bits to float32; a remainder to a master and back; a compensation to either if float32 holds the sum; no
/// companion to any. `refusals` gets all others, with the setting that would work; they are not converted. Both `file`
/// and `state` must outlive the result.
std::vector<StateConversion> state_conversions(const SafetensorsFile& file, const NamedTensors& state,
                                               std::vector<std::string>& refusals);

/// Kinds of state "optimizer.KIND.PARAMETER" that hold more bits of a parameter.
constexpr const char* kCompanionKinds[] = {"remainder", "compensation", "master"};

/// Returns true if a companion of `kind` with these sizes and this type fits a parameter: it has the parameter's sizes,
/// and the type of that kind of companion.
bool companion_fits(const std::string& kind, at::IntArrayRef parameter_sizes, at::ScalarType parameter_type,
                    at::IntArrayRef sizes, at::ScalarType type);

/// Returns the float32 value that a parameter and its companion represent; without a companion (undefined), the
/// parameter's own value.
at::Tensor whole_weights(const at::Tensor& parameter, const at::Tensor& companion);

/// Sets both from float32 weights: the parameter is rounded as the updates round it, the companion has the rest.
void put_whole_weights(const at::Tensor& whole, const std::string& kind, const at::Tensor& parameter,
                       const at::Tensor& companion);

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
