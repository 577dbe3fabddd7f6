// Declares a mutator for files with checksums: most of its results have right ones, so that mutations get past them.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace plimsoll::fuzz {

/// Mutates, and calls mend(data, size) three times of four.
template <typename Mend>
size_t mutate(uint8_t* data, size_t size, size_t max_size, unsigned seed, Mend&& mend) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 4 != 0) mend(data, size);
  return size;
}

/// Return numbers of a file, byte by byte.
inline uint64_t little_endian(const uint8_t* at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = bytes; i-- > 0;) value = value << 8 | at[i];
  return value;
}
inline void put_little_endian(uint8_t* at, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) at[i] = static_cast<uint8_t>(value >> (8 * i));
}

}  // namespace plimsoll::fuzz
