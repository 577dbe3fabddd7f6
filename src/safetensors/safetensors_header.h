// Declares the header of a safetensors file (https://huggingface.co/docs/safetensors). The header is untrusted text,
// and its parser checks every field.
//
//     | 8 bytes: n, little endian | n bytes: JSON, padded with spaces | data: tensors one after another, no holes |
//
//     {"__metadata__": {"step": "100"}, "weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
//
// Bounds: a header has at most 100 MB and is within the file; nothing nests deeper than above. The parsed header takes
// at most 32 x its size, which the shortest metadata reach; data is mapped and takes nothing.
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

/// Maximum size in bytes of the JSON that is read or written: the limit of the format's reference implementation.
constexpr int64_t kMaxSafetensorsHeader = 100'000'000;
/// Maximum number of dimensions of a tensor.
constexpr size_t kMaxSafetensorsDimensions = 64;
/// The alignment in bytes of the data from the file's start, in files that we write.
constexpr int64_t kSafetensorsAlignment = 64;

/// A tensor of the header; its data are bytes [begin, end) from the start of the data.
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

/// Returns the bytes of a tensor; nullopt if they, or its strides, do not fit into 63 bits, or a size is negative.
std::optional<int64_t> safetensors_bytes(DType dtype, const std::vector<int64_t>& sizes);

/// Returns "F32", "BF16", "BOOL", …; empty for types that the format does not know (complex numbers).
std::string_view safetensors_dtype(DType dtype);

/// Parses and checks the JSON of a file with `data_bytes` bytes of data. Every tensor has a known dtype, begin <= end,
/// and exactly the bytes of its sizes. The tensors cover the data from first to last byte without overlap. No name
/// comes twice; nothing is nested deeper than in the format. Throws UserError (failure) that starts with `file` and
/// says "truncated" or "corrupt".
SafetensorsHeader parse_safetensors_header(std::string_view json, int64_t data_bytes, const std::string& file);

/// Returns the length and the JSON in the form of a file, padded so that the data is aligned. Throws UserError
/// (failure) that starts with `file` for names or metadata that are not UTF-8, and for a header over the limit.
std::string format_safetensors_header(const SafetensorsHeader& header, const std::string& file);

/// Returns a hash of everything in the header except the metadata entry `except`. It does not depend on the JSON's
/// spaces and order.
uint64_t safetensors_header_hash(const SafetensorsHeader& header, std::string_view except);

/// Returns the error "FILE is corrupt: REASON; nothing was loaded from it".
UserError corrupt_file(const std::string& file, std::string_view reason);
UserError truncated_file(const std::string& file, std::string_view reason);

}  // namespace plimsoll
