// Reads GGUF files (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): metadata and tensors, often quantized
// in blocks. Files come from outside, so every field is checked.
//
//     | "GGUF" | version 2 or 3 | tensors | entries | key, type, value ... | name, sizes, type, offset ... | data |
//
// Bounds: the file is mapped; the kept metadata takes at most 16 x its size in the file. Tensors are at most 2^17,
// entries 2^16, dimensions 4, names 4096 bytes, the alignment 1 MiB; lists, texts and data are within the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "files/file_kind.h"

namespace plimsoll {

/// Types that can be read, plain or quantized in blocks along a row; the values are ggml's.
enum class GgmlType : uint32_t { f32 = 0, f16 = 1, q4_0 = 2, q4_1 = 3, q8_0 = 8, q6_k = 14, bf16 = 30 };

/// Returns the type with this value; nullopt for others.
std::optional<GgmlType> ggml_type(uint32_t value);

/// Returns "F32, F16, Q4_0, ...", for messages.
std::string ggml_type_names();

/// Number of elements in a block, and its bytes.
struct GgmlBlock {
  int64_t elements, bytes;
};
GgmlBlock block_of(GgmlType type);

/// Returns true if the type is in blocks; the other types are a DType.
bool is_quantized(GgmlType type);

/// Dequantizes blocks of a quantized type; `to` has exactly as many elements as the blocks.
void dequantize_blocks(GgmlType type, std::span<const std::byte> blocks, std::span<float> to);

namespace gguf_tensors {

inline constexpr std::string_view kFormat = "GGUF (tensors)";

inline constexpr FileFact kFacts[] = {
    {kFormat, "version", "applied", "2 and 3; others, and files of the other byte order, are refused"},
    {kFormat, "name", "applied", "names that the architecture does not have are refused"},
    {kFormat, "rope_freqs.weight", "refused", "it scales the rotary frequencies: take the safetensors files"},
    {kFormat, "dimensions", "applied", "at most 4, in the reverse order"},
    {kFormat, "type F32, F16, BF16", "applied", "numbers as they are"},
    {kFormat, "type Q8_0, Q4_0, Q4_1, Q6_K", "applied", "dequantized; rows must be whole blocks"},
    {kFormat, "type: all others", "refused", "convert the file to a type that is read"},
    {kFormat, "offset", "applied", "tensors that overlap, are not aligned, or end behind the file are refused"},
};
static_assert(are_complete(kFacts));

}  // namespace gguf_tensors

/// A tensor of an open file: rows of blocks.
struct GgufTensor {
  GgmlType type = GgmlType::f32;
  std::vector<int64_t> sizes;        ///< row major, as in libtorch: the reverse of the file's order
  std::span<const std::byte> bytes;  ///< in the map, without any alignment; GgufFile::require_whole() after their use
};

class GgufFile {
 public:
  /// Opens a file. Throws UserError that names the file: missing, truncated, corrupt, of another version,
  /// with a tensor of an unknown type.
  static GgufFile open(const std::filesystem::path& path);

  const std::map<std::string, GgufTensor>& tensors() const { return tensors_; }

  // Metadata: nullopt if there is no such key. Throws UserError (failure) if its value is of another kind.
  std::optional<std::string> text(const std::string& key) const;
  std::optional<int64_t> integer(const std::string& key) const;  ///< integers of any width, below 2^63
  std::optional<double> number(const std::string& key) const;
  /// Returns the strings of a list; they point into the map: call require_whole() after their last use.
  std::optional<std::vector<std::string_view>> texts(const std::string& key) const;

  /// Returns the keys of the metadata.
  std::vector<std::string> keys() const;
  /// Returns a value for a message or a comparison: "4", "0.25", "true", "linear", "a list of 3"; "" if there is none.
  std::string shown(const std::string& key) const;

  const std::string& path() const { return path_; }

  /// Throws UserError (failure) if the file has lost bytes. Call it after the bytes of tensors or texts() were used
  /// (MappedFile).
  void require_whole() const { map_.require_whole(); }

 private:
  /// A value in the map. Its contents are decoded when they are requested.
  struct Value {
    uint32_t type = 0;
    uint32_t element_type = 0;  ///< element type of a list
    uint64_t count = 0;         ///< number of elements of a list
    std::span<const std::byte> bytes;
  };
  friend class GgufReader;

  const Value* find(const std::string& key, uint32_t type) const;

  std::string path_;
  MappedFile map_;
  std::map<std::string, Value> values_;
  std::map<std::string, GgufTensor> tensors_;
};

}  // namespace plimsoll
