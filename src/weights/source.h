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

#include "files/file_kind.h"
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

namespace plimsoll::weights::safetensors {

inline constexpr std::string_view kFile = "safetensors", kIndexFile = "model.safetensors.index.json",
                                  kFolder = "folder of weights", kOwn = "safetensors (checkpoint)";

/// The treatment of each part of a safetensors file, of its index and of the folder around them.
inline constexpr FileFact kFacts[] = {
    {kFile, "names", "applied",
     "every tensor of the model must be there; tensors that the model does not have are refused, except heads of other "
     "tasks and buffers that are computed here"},
    {kFile, "dtype F64, F32, F16, BF16", "applied", "weights are rounded to the job's dtype"},
    {kFile, "dtype I64, I32, I16, I8, U8, BOOL", "refused", "as weights: they are floating-point numbers"},
    {kFile, "dtype: all others (F8_E4M3, U16, ...)", "refused", "save the model in BF16, F16 or F32"},
    {kFile, "shape, data_offsets", "applied",
     "must agree with each other and with the file: gaps, overlaps and bytes behind the last tensor are refused"},
    {kFile, "other keys of a tensor", "refused", "the format has none"},
    {kFile, "__metadata__: hash:NAME", "applied", "checksums, which Plimsoll writes"},
    {kFile, "__metadata__: format, and other keys", "ignored",
     "which program wrote the file; names and sizes of the tensors are compared with the architecture"},
    {kIndexFile, "weight_map", "applied",
     "every file must be in the folder and have exactly its tensors; paths out of the folder are refused"},
    {kIndexFile, "metadata", "ignored", "total sizes"},
    {kFolder, "model.safetensors", "applied", "first, as in transformers; a note names weights that are not read"},
    {kFolder, "model.safetensors.index.json", "applied", "if there is no model.safetensors"},
    {kFolder, "adapter_config.json", "refused", "merge the adapter (PEFT: merge_and_unload)"},
    {kFolder, "pytorch_model.bin", "refused", "if there is no safetensors file: it is a pickle"},
    {kOwn, "plimsoll.checkpoint: format_version", "applied", "1 and 2; others are refused"},
    {kOwn, "plimsoll.checkpoint: step, position, epoch, counters", "applied", "a resumed run continues there"},
    {kOwn, "plimsoll.checkpoint: origin", "applied",
     "settings of the job that wrote the file; a job with others is refused, except formats that are converted"},
    {kOwn, "plimsoll.checkpoint: data", "applied",
     "size and hash of each file, split, order and tokenizer; a job with others is refused, unless "
     "checkpoint.allow_other_data is true"},
    {kOwn, "hash:NAME, hash:__metadata__", "applied", "every tensor and the header must have theirs"},
    {kOwn, "names, shapes and dtypes of tensors", "applied", "must be those of the job's state"},
};
static_assert(are_complete(kFacts));

}  // namespace plimsoll::weights::safetensors
