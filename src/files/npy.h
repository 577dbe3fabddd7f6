// Arrays of numbers as NumPy writes them (.npy, format versions 1.0 to 3.0; numpy.org/doc/stable/reference/generated/
// numpy.lib.format.html), alone in a file or several in an .npz archive.
//
// Whole and floating-point numbers and booleans, of either byte order, in C or Fortran order. Objects (pickles), texts,
// dates, complex numbers and records are refused by name. Every size in a header is held against the bytes that are
// there before anything is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

enum class NpyType : uint8_t {
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  float32,
  float64,
};
std::string_view name_of(NpyType type);  ///< as NumPy names it: "float32", "bool"
bool is_floating(NpyType type);

/// In memory: in C order (the last index is the fastest), in this machine's byte order.
struct NpyArray {
  NpyType type = NpyType::float32;
  std::vector<int64_t> sizes;  ///< empty: a single number
  std::vector<std::byte> bytes;

  int64_t count() const;  ///< numbers, all together
  /// Number `i` of them. Whole numbers beyond 2^53 are rounded.
  double at(int64_t i) const;
  /// Rounded to float32, as reading the number's decimal digits would.
  std::vector<float> floats() const;
  std::string sizes_in_words() const;  ///< "40 x 100 x 6 of float32"
};

/// Throws UserError (failure) that names the file and what is wrong: not an array, cut short or longer than it says, a
/// type that is no number.
NpyArray read_npy(const std::filesystem::path& file);

/// The same from memory; `name` stands for the file in messages.
NpyArray parse_npy(std::span<const std::byte> bytes, const std::string& name);
/// Parses without a second copy of the numbers, unless they are in Fortran's order.
NpyArray parse_npy(std::vector<std::byte>&& bytes, const std::string& name);

}  // namespace plimsoll
