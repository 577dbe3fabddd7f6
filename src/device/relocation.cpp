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

class Relocations {
 public:
  explicit Relocations(std::vector<Relocation> relocations) : relocations_(std::move(relocations)) {
    std::erase_if(relocations_, [](const Relocation& relocation) {
      return relocation.bytes == 0 || relocation.from == relocation.to;
    });
    std::ranges::sort(relocations_, std::less{}, [](const Relocation& relocation) { return number(relocation.from); });
    for (const Relocation& relocation : relocations_)
      check(number(relocation.from) % kRelocationUnit == 0 && number(relocation.to) % kRelocationUnit == 0 &&
                relocation.bytes % kRelocationUnit == 0,
            "a move is not aligned");
  }

  void carry_out() {
    for (const Relocation& relocation : take_in_order())
      std::memmove(relocation.to, relocation.from, static_cast<size_t>(relocation.bytes));
    relocate_units();
  }

  // Returns whole ranges in an order in which each can be moved, because no remaining range is stored at its new
  // address. The others are left.
  std::vector<Relocation> take_in_order() {
    std::vector<Relocation> in_order;
    std::vector<int> in_its_way(relocations_.size(), 0);
    std::vector<std::vector<size_t>> waits(
        relocations_.size());  // by the range in the way: the ranges that wait for it
    for (size_t m = 0; m < relocations_.size(); ++m) {
      const uintptr_t begin = number(relocations_[m].to), end = begin + relocations_[m].bytes;
      for (size_t other = first_ending_after(begin);
           other < relocations_.size() && number(relocations_[other].from) < end; ++other)
        if (other != m) {
          ++in_its_way[m];
          waits[other].push_back(m);
        }
    }
    std::vector<char> done(relocations_.size(), 0);
    std::vector<size_t> ready;
    for (size_t m = 0; m < relocations_.size(); ++m)
      if (in_its_way[m] == 0) ready.push_back(m);
    while (!ready.empty()) {
      const size_t m = ready.back();
      ready.pop_back();
      in_order.push_back(relocations_[m]);
      done[m] = 1;
      for (const size_t waiting : waits[m])
        if (--in_its_way[waiting] == 0) ready.push_back(waiting);
    }
    std::vector<Relocation> left;
    for (size_t m = 0; m < relocations_.size(); ++m)
      if (!done[m]) left.push_back(relocations_[m]);
    relocations_ = std::move(left);
    return in_order;
  }
  const std::vector<Relocation>& left() const { return relocations_; }

 private:
  // Moves the remaining ranges, which form cycles or wait for one, unit by unit. The unit at a target address is lifted
  // out and moved next, until a target is free.
  void relocate_units() {
    std::vector<int64_t> first(relocations_.size());  // by move: index of its first unit
    int64_t units = 0;
    for (size_t m = 0; m < relocations_.size(); ++m) {
      first[m] = units;
      units += relocations_[m].bytes / kRelocationUnit;
    }
    std::vector<bool> taken(units, false);
    std::array<std::byte, kRelocationUnit> carried, met;
    for (size_t m = 0; m < relocations_.size(); ++m)
      for (int64_t unit = 0; unit < relocations_[m].bytes / kRelocationUnit; ++unit) {
        if (taken[first[m] + unit]) continue;
        taken[first[m] + unit] = true;
        std::memcpy(carried.data(), relocations_[m].from + unit * kRelocationUnit, kRelocationUnit);
        std::byte* place = relocations_[m].to + unit * kRelocationUnit;
        while (true) {
          const size_t next = first_ending_after(number(place));
          const bool used = next < relocations_.size() && number(relocations_[next].from) <= number(place);
          const int64_t at = used ? (place - relocations_[next].from) / kRelocationUnit : 0;
          if (!used || taken[first[next] + at]) break;
          taken[first[next] + at] = true;
          std::memcpy(met.data(), place, kRelocationUnit);
          std::memcpy(place, carried.data(), kRelocationUnit);
          carried = met;
          place = relocations_[next].to + at * kRelocationUnit;
        }
        std::memcpy(place, carried.data(), kRelocationUnit);
      }
  }

  // Returns the index of the first old range, in order, that ends after `place`.
  size_t first_ending_after(uintptr_t place) const {
    const auto end = [](const Relocation& relocation) { return number(relocation.from) + relocation.bytes; };
    return std::ranges::upper_bound(relocations_, place, std::less{}, end) - relocations_.begin();
  }

  std::vector<Relocation> relocations_;  // sorted by old address
};

}  // namespace

void relocate_by_copies(std::vector<Relocation> relocations,
                        const std::function<void(void*, const std::byte*, int64_t)>& read,
                        const std::function<void(std::byte*, const void*, int64_t)>& write) {
  constexpr int64_t kPiece = int64_t{8} << 20;
  Relocations all(std::move(relocations));
  std::vector<std::byte> piece;
  for (const Relocation& relocation : all.take_in_order()) {
    piece.resize(static_cast<size_t>(std::min(relocation.bytes, kPiece)));
    // Start at the end that the range's own new address does not overwrite first.
    const bool forwards = number(relocation.to) < number(relocation.from);
    for (int64_t done = 0; done < relocation.bytes;) {
      const int64_t size = std::min(relocation.bytes - done, kPiece),
                    at = forwards ? done : relocation.bytes - done - size;
      read(piece.data(), relocation.from + at, size);
      write(relocation.to + at, piece.data(), size);
      done += size;
    }
  }
  std::vector<std::vector<std::byte>> held;
  held.reserve(all.left().size());
  for (const Relocation& relocation : all.left()) {
    held.emplace_back(static_cast<size_t>(relocation.bytes));
    read(held.back().data(), relocation.from, relocation.bytes);
  }
  for (size_t m = 0; m < held.size(); ++m) write(all.left()[m].to, held[m].data(), all.left()[m].bytes);
}

void relocate_on_host(std::vector<Relocation> relocations) {
  Relocations(std::move(relocations)).carry_out();
}

}  // namespace plimsoll
