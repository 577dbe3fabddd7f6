// Reads arrays in NumPy's format (.npy, versions 1.0 to 3.0), alone in a file or several in an .npz archive. The format
// is numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
//
// Supported are whole and floating-point numbers and booleans, of either byte order, in C or Fortran order. Objects
// (pickles), texts, dates, complex numbers and records are refused by name. Every size in a header is compared with the
// bytes of the file before anything is allocated.
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
std::string_view name_of(NpyType type);  ///< NumPy's name: "float32", "bool"
bool is_floating(NpyType type);

/// An array in memory: in C order (the last index is the fastest), in this machine's byte order.
struct NpyArray {
  NpyType type = NpyType::float32;
  std::vector<int64_t> sizes;  ///< empty: a single number
  std::vector<std::byte> bytes;

  int64_t count() const;  ///< number of elements
  /// Returns element `i`, which the array must have. Whole numbers beyond 2^53 are rounded.
  double at(int64_t i) const;
  /// Returns all elements rounded to float32, as reading the number's decimal digits would.
  std::vector<float> floats() const;
  std::string describe_sizes() const;  ///< returns "40 x 100 x 6 of float32"
};

/// Reads an array. Throws UserError (failure) that names the file and the error: not an array, cut short or longer than
/// it says, a type that is not a number.
NpyArray read_npy(const std::filesystem::path& file);

/// Parses an array in memory; `name` replaces the file in messages.
NpyArray parse_npy(std::span<const std::byte> bytes, const std::string& name);
/// Parses without a second copy of the elements, unless they are in Fortran's order.
NpyArray parse_npy(std::vector<std::byte>&& bytes, const std::string& name);

}  // namespace plimsoll
