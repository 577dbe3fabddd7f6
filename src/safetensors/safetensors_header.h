// The header of a safetensors file (https://huggingface.co/docs/safetensors): text from outside, parsed under
// suspicion.
//
//     | 8 bytes: n, little endian | n bytes: JSON, padded with spaces | data: tensors one after another, no holes |
//
//     {"__metadata__": {"step": "100"}, "weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
//
// Bounds: a header has at most 100 MB and lies within the file; nothing nests deeper than above. What is made of it
// takes at most 32 x its size, which the shortest metadata reach; data is mapped and takes nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/error.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// The longest JSON that is read or written, in bytes: the limit of the format's reference implementation.
constexpr int64_t kMaxSafetensorsHeader = 100'000'000;
/// The most dimensions of a tensor.
constexpr size_t kMaxSafetensorsDimensions = 64;
/// The data starts at a multiple of this from the file's start, in files that we write.
constexpr int64_t kSafetensorsAlignment = 64;

/// One tensor of the header; its data are bytes [begin, end) from the start of the data.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::float32;
  std::vector<int64_t> sizes;
  int64_t begin = 0;
  int64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  ///< in the order of their data, without holes
  std::map<std::string, std::string> metadata;
};

/// Bytes of a tensor; nothing where they, or its strides, do not fit into 63 bits, or a size is negative.
std::optional<int64_t> safetensors_bytes(DType dtype, const std::vector<int64_t>& sizes);

/// "F32", "BF16", "BOOL", …; empty for what the format does not know (complex numbers).
std::string_view safetensors_dtype(DType dtype);

/// Parses and checks the JSON of a file with `data_bytes` bytes of data. Every tensor has a known dtype, begin <= end,
/// and exactly the bytes that its sizes ask for; the tensors cover the data from first to last byte without overlap;
/// no name comes twice; nothing is nested deeper than the format nests. Throws UserError (failure) that starts with
/// `file` and says "truncated" or "corrupt".
SafetensorsHeader parse_safetensors_header(std::string_view json, int64_t data_bytes, const std::string& file);

/// The length and the JSON as they stand in a file, padded so that the data is aligned. Throws UserError (failure)
/// that starts with `file` for names or metadata that are not UTF-8, and for a header over the limit.
std::string format_safetensors_header(const SafetensorsHeader& header, const std::string& file);

/// A hash of everything in the header but the metadata entry `except`, whatever the JSON's spaces and order.
uint64_t safetensors_header_hash(const SafetensorsHeader& header, std::string_view except);

/// "FILE is corrupt: REASON; nothing was loaded from it".
UserError corrupt_file(const std::string& file, std::string_view reason);
UserError truncated_file(const std::string& file, std::string_view reason);

}  // namespace plimsoll
