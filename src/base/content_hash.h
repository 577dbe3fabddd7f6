// Declares a fast 64-bit hash of bytes (XXH3), which finds flipped bits in files of many gigabytes at the speed of
// memory. It does not guard against an adversary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace plimsoll {

/// Returns XXH3, 64 bits, seed 0: the same on every machine.
uint64_t content_hash(std::span<const std::byte> bytes);

/// A hasher of bytes that come in pieces. The result is content_hash() of all bytes, wherever the pieces end.
class ContentHasher {
 public:
  ContentHasher();
  void update(std::span<const std::byte> bytes);
  /// Returns the hash of all bytes so far; more may follow.
  uint64_t digest() const;
  void reset();

 private:
  struct Free {
    void operator()(void* state) const;
  };
  std::unique_ptr<void, Free> state_;
};

}  // namespace plimsoll
