// Declares what the readers of safetensors files, of their index and of the folder around them do with each part.
#pragma once

#include "files/file_facts.h"

namespace plimsoll::weights::safetensors {

inline constexpr std::string_view kFile = "safetensors", kIndexFile = "model.safetensors.index.json",
                                  kFolder = "folder of weights", kOwn = "safetensors (checkpoint)";

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
