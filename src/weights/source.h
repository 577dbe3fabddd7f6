// Tensors in files of others, by name: one safetensors file, several with an index, a GGUF file.
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

/// An open one. Reading is from a memory map: what was read and let go takes no memory.
class Source {
 public:
  struct Tensor {
    std::vector<int64_t> sizes;
    DType dtype = DType::float32;  ///< as rows() gives it
  };

  virtual ~Source() = default;

  const std::map<std::string, Tensor>& tensors() const { return tensors_; }

  /// The bytes of rows [begin, end) of the first dimension (0 and 1 for a tensor without any): in the map where they
  /// can be, aligned to nothing, or made in `buffer`.
  virtual std::span<const std::byte> rows(const std::string& name, int64_t begin, int64_t end,
                                          std::vector<std::byte>& buffer) const = 0;

  /// The tensor is not needed any more: its pages go back.
  virtual void let_go(const std::string& name) const = 0;

  /// Throws UserError (failure) if bytes of a file that were read so far were gone (MappedFile).
  virtual void require_whole() const = 0;

 protected:
  std::map<std::string, Tensor> tensors_;
};

/// Whether `path` is a file that begins as GGUF files do.
bool is_gguf(const std::filesystem::path& path);

/// Opens a folder with model.safetensors or model.safetensors.index.json, a .safetensors file, or a GGUF file. Throws
/// UserError (failure) that names the file at fault: missing, truncated, corrupt; an index that names a file outside
/// its folder, one that is not there, or one that does not hold what the index says.
std::unique_ptr<Source> open_source(const std::filesystem::path& path);

}  // namespace plimsoll::weights
