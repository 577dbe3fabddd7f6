#include "collectives/shared_memory_exchange.h"

#include <algorithm>
#include <cstring>

#include "collectives/exchange_support.h"
#include "plimsoll/error.h"

namespace plimsoll {
// Every rank writes the parts of the next piece that the others need, waits for them, and adds. A buffer is written
// again two pieces later. All ranks have passed the barrier between the two, so they have read it.
void SharedMemoryExchange::reduce_scatter(const at::Tensor& sum, const at::Tensor& source, bool first) {
  begin(call_of(ExchangeKind::reduce_scatter, sum, source, first));
  check(can_sum(sum.scalar_type(), source.scalar_type()), "reduce_scatter: dtypes that cannot be summed");
  check(source.numel() <= sum.numel() * size(), "reduce_scatter: the source has more elements than all slices");
  const int64_t slice = sum.numel(), width = source.element_size(), ranks = size();
  const int64_t slot = kExchangeBuffer / std::max<int64_t>(ranks - 1, 1) / 64 * 64;  // bytes for one other rank
  const auto slot_of = [&](int owner, int writer) { return (owner - (owner > writer ? 1 : 0)) * slot; };
  const int64_t piece = slot / width;
  std::vector<const void*> terms(static_cast<size_t>(ranks));
  int64_t from = 0;
  do {
    for (int to = 0; to < ranks; ++to) {
      if (to == rank_) continue;
      const int64_t bytes = part_of_slice(source.numel(), to, slice, from, piece) * width;
      if (bytes == 0) continue;
      copy_bytes(next_buffer(rank_) + slot_of(to, rank_), bytes_of(source) + (to * slice + from) * width, bytes);
      bytes_sent_ += bytes;
    }
    barrier();
    const int64_t count = part_of_slice(source.numel(), rank_, slice, from, piece);
    for (int r = 0; r < ranks; ++r) {
      terms[static_cast<size_t>(r)] =
          r == rank_ ? bytes_of(source) + (rank_ * slice + from) * width : next_buffer(r) + slot_of(rank_, r);
    }
    std::byte* target = bytes_of(sum) + from * sum.element_size();
    if (count > 0) add_in_order(target, sum.scalar_type(), terms, source.scalar_type(), count, first);
    if (first) {
      const int64_t all = std::min(piece, slice - from);
      if (all > count)
        std::memset(target + count * sum.element_size(), 0, static_cast<size_t>(all - count) * sum.element_size());
    }
    which_ ^= 1;
    from += piece;
  } while (from < slice);
}

// A piece has a part for each rank. The first half of a buffer has the parts for the others, the second half the sum of
// the own part. Parts of the next piece are written before the barrier that makes the sums of this piece visible.
void SharedMemoryExchange::all_reduce(const at::Tensor& sum, const at::Tensor& source, bool first) {
  begin(call_of(ExchangeKind::all_reduce, sum, source, first));
  check(can_sum(sum.scalar_type(), source.scalar_type()), "all_reduce: dtypes that cannot be summed");
  check(source.numel() == sum.numel(), "all_reduce: the sum and the source differ in elements");
  const int64_t ranks = size(), from_width = source.element_size(), to_width = sum.element_size();
  const int64_t half = kExchangeBuffer / 2, slot = half / ranks / 64 * 64;
  const int64_t most = std::min(slot / from_width, half / to_width), whole = sum.numel();
  const int64_t part = std::min(most, (whole + ranks - 1) / ranks), piece = std::max<int64_t>(part * ranks, 1);
  const auto count_of = [&](int64_t from, int64_t r) { return std::clamp<int64_t>(whole - from - r * part, 0, part); };
  const auto write_parts = [&](int64_t from, int which) {
    for (int to = 0; to < ranks; ++to) {
      const int64_t bytes = count_of(from, to) * from_width;
      if (to == rank_ || bytes == 0) continue;
      copy_bytes(block_.buffer(rank_, which) + to * slot, bytes_of(source) + (from + to * part) * from_width, bytes);
      bytes_sent_ += bytes;
    }
  };
  std::vector<const void*> terms(static_cast<size_t>(ranks));
  write_parts(0, which_);
  barrier();
  for (int64_t from = 0; from < whole; from += piece) {
    const int64_t count = count_of(from, rank_), begin = from + rank_ * part;
    if (count > 0) {
      for (int r = 0; r < ranks; ++r)
        terms[static_cast<size_t>(r)] =
            r == rank_ ? bytes_of(source) + begin * from_width : next_buffer(r) + rank_ * slot;
      std::byte* target = bytes_of(sum) + begin * to_width;
      add_in_order(target, sum.scalar_type(), terms, source.scalar_type(), count, first);
      if (ranks > 1) copy_bytes(next_buffer(rank_) + half, target, count * to_width);
      bytes_sent_ += count * to_width * (ranks - 1);
    }
    if (from + piece < whole) write_parts(from + piece, which_ ^ 1);
    barrier();
    for (int r = 0; r < ranks; ++r) {
      const int64_t bytes = count_of(from, r) * to_width;
      if (r == rank_ || bytes == 0) continue;
      copy_bytes(bytes_of(sum) + (from + r * part) * to_width, next_buffer(r) + half, bytes);
    }
    which_ ^= 1;
  }
}

void SharedMemoryExchange::all_gather(const at::Tensor& whole) {
  begin(call_of(ExchangeKind::all_gather, whole, whole, 0));
  check(whole.numel() % size() == 0, "all_gather: the tensor does not have equal slices");
  const int64_t slice = static_cast<int64_t>(whole.nbytes()) / size();
  int64_t from = 0;
  do {
    const int64_t bytes = std::min(kExchangeBuffer, slice - from);
    if (size() > 1) copy_bytes(next_buffer(rank_), bytes_of(whole) + rank_ * slice + from, bytes);
    bytes_sent_ += bytes * (size() - 1);
    barrier();
    for (int k = 1; k < size(); ++k) {
      const int r = (rank_ + k) % size();
      copy_bytes(bytes_of(whole) + r * slice + from, next_buffer(r), bytes);
    }
    which_ ^= 1;
    from += kExchangeBuffer;
  } while (from < slice);
}

void SharedMemoryExchange::broadcast(const at::Tensor& tensor, int root) {
  begin(call_of(ExchangeKind::broadcast, tensor, tensor, root));
  check(root >= 0 && root < size(), "broadcast: no such rank");
  const auto whole = static_cast<int64_t>(tensor.nbytes());
  int64_t from = 0;
  do {
    const int64_t bytes = std::min(kExchangeBuffer, whole - from);
    if (rank_ == root && size() > 1) {
      copy_bytes(next_buffer(rank_), bytes_of(tensor) + from, bytes);
      bytes_sent_ += bytes * (size() - 1);
    }
    barrier();
    if (rank_ != root) copy_bytes(bytes_of(tensor) + from, next_buffer(root), bytes);
    which_ ^= 1;
    from += kExchangeBuffer;
  } while (from < whole);
}

std::vector<std::string> SharedMemoryExchange::gather_text(std::string_view text) {
  begin({ExchangeKind::gather_text});
  const auto length = static_cast<int64_t>(text.size());
  check(length + 8 <= kExchangeBuffer, "gather_text: the text has more than 1 MiB");
  std::memcpy(next_buffer(rank_), &length, sizeof(length));
  std::memcpy(next_buffer(rank_) + sizeof(length), text.data(), text.size());
  barrier();
  std::vector<std::string> texts;
  for (int r = 0; r < size(); ++r) {
    int64_t bytes = 0;
    std::memcpy(&bytes, next_buffer(r), sizeof(bytes));
    const char* begin = reinterpret_cast<const char*>(next_buffer(r)) + sizeof(bytes);
    texts.emplace_back(begin, static_cast<size_t>(bytes));
  }
  which_ ^= 1;
  return texts;
}

}  // namespace plimsoll
