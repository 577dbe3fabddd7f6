// Declares access by name to the tensors in other programs' files: one safetensors file, several with an index, a GGUF
// file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll::weights {

/// An open source of tensors. It reads from a memory map: tensors that were read and released take no memory.
class Source {
 public:
  struct Tensor {
    std::vector<int64_t> sizes;
    DType dtype = DType::float32;  ///< the dtype of the bytes that rows() returns
  };

  virtual ~Source() = default;

  const std::map<std::string, Tensor>& tensors() const { return tensors_; }

  /// Returns the bytes of rows [begin, end) of the first dimension (0 and 1 for a tensor without any). They are in the
  /// map if possible, without alignment, or else in `buffer`.
  virtual std::span<const std::byte> rows(const std::string& name, int64_t begin, int64_t end,
                                          std::vector<std::byte>& buffer) const = 0;

  /// Releases the pages of a tensor that is no longer needed.
  virtual void release_pages(const std::string& name) const = 0;

  /// Throws UserError (failure) if the file of a tensor has lost bytes. Call it after the bytes of rows() were used
  /// (MappedFile).
  virtual void require_whole(const std::string& name) const = 0;

 protected:
  std::map<std::string, Tensor> tensors_;
};

/// Returns true if `path` is a file that begins as GGUF files do.
bool is_gguf(const std::filesystem::path& path);

/// Opens a folder with model.safetensors or model.safetensors.index.json, a .safetensors file, or a GGUF file. Of a
/// folder with both, model.safetensors is read, as by transformers. Throws UserError that names the file at
/// fault. Causes: it is missing, truncated or corrupt. An index may also name a file outside its folder, one that does
/// not exist, or one without the tensors of the index. A folder with an adapter of PEFT is refused.
std::unique_ptr<Source> open_source(const std::filesystem::path& path);

/// Returns notes on files of weights in the folder `path` that open_source() does not read, one a line; none for a
/// file.
std::vector<std::string> notes_on_unread_weights(const std::filesystem::path& path);

}  // namespace plimsoll::weights
