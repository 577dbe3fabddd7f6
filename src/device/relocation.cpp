#include "device/relocation.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <utility>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

// Addresses are in several arenas, so they are compared as numbers.
uintptr_t number(const std::byte* place) {
  return reinterpret_cast<uintptr_t>(place);
}

class Moves {
 public:
  explicit Moves(std::vector<ByteMove> moves) : moves_(std::move(moves)) {
    std::erase_if(moves_, [](const ByteMove& move) { return move.bytes == 0 || move.from == move.to; });
    std::ranges::sort(moves_, std::less{}, [](const ByteMove& move) { return number(move.from); });
    for (const ByteMove& move : moves_)
      check(number(move.from) % kMoveUnit == 0 && number(move.to) % kMoveUnit == 0 && move.bytes % kMoveUnit == 0,
            "a move is not aligned");
  }

  void carry_out() {
    for (const ByteMove& move : take_in_order()) std::memmove(move.to, move.from, static_cast<size_t>(move.bytes));
    move_units();
  }

  // Returns whole ranges in an order in which each can be moved, because no remaining range is stored at its new
  // address. The others are left.
  std::vector<ByteMove> take_in_order() {
    std::vector<ByteMove> in_order;
    std::vector<int> in_its_way(moves_.size(), 0);
    std::vector<std::vector<size_t>> waits(moves_.size());  // by the range in the way: the ranges that wait for it
    for (size_t m = 0; m < moves_.size(); ++m) {
      const uintptr_t begin = number(moves_[m].to), end = begin + moves_[m].bytes;
      for (size_t other = first_ending_after(begin); other < moves_.size() && number(moves_[other].from) < end; ++other)
        if (other != m) {
          ++in_its_way[m];
          waits[other].push_back(m);
        }
    }
    std::vector<char> done(moves_.size(), 0);
    std::vector<size_t> ready;
    for (size_t m = 0; m < moves_.size(); ++m)
      if (in_its_way[m] == 0) ready.push_back(m);
    while (!ready.empty()) {
      const size_t m = ready.back();
      ready.pop_back();
      in_order.push_back(moves_[m]);
      done[m] = 1;
      for (const size_t waiting : waits[m])
        if (--in_its_way[waiting] == 0) ready.push_back(waiting);
    }
    std::vector<ByteMove> left;
    for (size_t m = 0; m < moves_.size(); ++m)
      if (!done[m]) left.push_back(moves_[m]);
    moves_ = std::move(left);
    return in_order;
  }
  const std::vector<ByteMove>& left() const { return moves_; }

 private:
  // Moves the remaining ranges, which form cycles or wait for one, unit by unit. The unit at a target address is lifted
  // out and moved next, until a target is free.
  void move_units() {
    std::vector<int64_t> first(moves_.size());  // by move: index of its first unit
    int64_t units = 0;
    for (size_t m = 0; m < moves_.size(); ++m) {
      first[m] = units;
      units += moves_[m].bytes / kMoveUnit;
    }
    std::vector<bool> taken(units, false);
    std::array<std::byte, kMoveUnit> carried, met;
    for (size_t m = 0; m < moves_.size(); ++m)
      for (int64_t unit = 0; unit < moves_[m].bytes / kMoveUnit; ++unit) {
        if (taken[first[m] + unit]) continue;
        taken[first[m] + unit] = true;
        std::memcpy(carried.data(), moves_[m].from + unit * kMoveUnit, kMoveUnit);
        std::byte* place = moves_[m].to + unit * kMoveUnit;
        while (true) {
          const size_t next = first_ending_after(number(place));
          const bool used = next < moves_.size() && number(moves_[next].from) <= number(place);
          const int64_t at = used ? (place - moves_[next].from) / kMoveUnit : 0;
          if (!used || taken[first[next] + at]) break;
          taken[first[next] + at] = true;
          std::memcpy(met.data(), place, kMoveUnit);
          std::memcpy(place, carried.data(), kMoveUnit);
          carried = met;
          place = moves_[next].to + at * kMoveUnit;
        }
        std::memcpy(place, carried.data(), kMoveUnit);
      }
  }

  // Returns the index of the first old range, in order, that ends after `place`.
  size_t first_ending_after(uintptr_t place) const {
    const auto end = [](const ByteMove& move) { return number(move.from) + move.bytes; };
    return std::ranges::upper_bound(moves_, place, std::less{}, end) - moves_.begin();
  }

  std::vector<ByteMove> moves_;  // sorted by old address
};

}  // namespace

void move_by_copies(std::vector<ByteMove> moves, const std::function<void(void*, const std::byte*, int64_t)>& read,
                    const std::function<void(std::byte*, const void*, int64_t)>& write) {
  constexpr int64_t kPiece = int64_t{8} << 20;
  Moves all(std::move(moves));
  std::vector<std::byte> piece;
  for (const ByteMove& move : all.take_in_order()) {
    piece.resize(static_cast<size_t>(std::min(move.bytes, kPiece)));
    // Start at the end that the range's own new address does not overwrite first.
    const bool forwards = number(move.to) < number(move.from);
    for (int64_t done = 0; done < move.bytes;) {
      const int64_t size = std::min(move.bytes - done, kPiece), at = forwards ? done : move.bytes - done - size;
      read(piece.data(), move.from + at, size);
      write(move.to + at, piece.data(), size);
      done += size;
    }
  }
  std::vector<std::vector<std::byte>> held;
  held.reserve(all.left().size());
  for (const ByteMove& move : all.left()) {
    held.emplace_back(static_cast<size_t>(move.bytes));
    read(held.back().data(), move.from, move.bytes);
  }
  for (size_t m = 0; m < held.size(); ++m) write(all.left()[m].to, held[m].data(), all.left()[m].bytes);
}

void move_on_host(std::vector<ByteMove> moves) {
  Moves(std::move(moves)).carry_out();
}

}  // namespace plimsoll
