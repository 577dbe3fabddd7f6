#include "checkpoint/sliced_state.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "plimsoll/bytes.h"

namespace plimsoll {
namespace {

constexpr int64_t kPiece = MiB;

std::span<const std::byte> bytes_of(const at::Tensor& contiguous) {
  return {static_cast<const std::byte*>(contiguous.const_data_ptr()), contiguous.nbytes()};
}

}  // namespace

std::vector<int64_t> SlicedState::sizes_of(const std::string& name, const at::Tensor& tensor) const {
  return is_slice(name) ? whole_sizes.at(name) : tensor.sizes().vec();
}

void for_each_piece(const std::string& name, const at::Tensor& tensor, const SlicedState& sliced,
                    const std::function<void(std::span<const std::byte>)>& take) {
  if (!sliced.is_slice(name)) {
    // Copies layouts such as channels_last, and tensors on a device, one at a time.
    const auto require_state = [&] {
      if (sliced.require_state) sliced.require_state();
    };
    try {
      take(bytes_of(tensor.cpu().contiguous()));
    } catch (...) {
      require_state();  // write() refuses lost bytes as a bad address; they also differ from those that were hashed
      throw;
    }
    require_state();
    return;
  }
  Exchange& exchange = *sliced.exchange;
  const at::Tensor own = tensor.cpu().contiguous();
  const auto slice = static_cast<int64_t>(own.nbytes());
  auto whole = static_cast<int64_t>(own.element_size());
  for (const int64_t size : sliced.whole_sizes.at(name)) whole *= size;
  for (int root = 0; root < exchange.size(); ++root) {
    const int64_t end = std::clamp<int64_t>(whole - root * slice, 0, slice);
    for (int64_t begin = 0; begin < end; begin += kPiece) {
      const at::Tensor piece = at::empty({std::min(kPiece, end - begin)}, at::kByte);
      if (exchange.rank() == root) {
        std::memcpy(piece.mutable_data_ptr(), bytes_of(own).data() + begin, piece.nbytes());
        if (sliced.require_state) sliced.require_state();
      }
      exchange.broadcast(piece, root);
      if (exchange.rank() == 0) take(bytes_of(piece));
    }
  }
}

void send_slices(const NamedTensors& state, const SlicedState& sliced) {
  // Sent twice, because the writer needs them twice: for the checksums, and for the file.
  for (int pass = 0; pass < 2; ++pass)
    for (const auto& [name, tensor] : in_file_order(state))
      if (sliced.is_slice(name)) for_each_piece(name, tensor, sliced, [](std::span<const std::byte>) {});
}

NamedTensors in_file_order(NamedTensors tensors) {
  std::ranges::stable_sort(tensors, std::greater(), [](const auto& entry) { return entry.second.element_size(); });
  return tensors;
}

}  // namespace plimsoll
