// Declares the comparison of a head in a file with the embedding that it should be.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "weights/families.h"
#include "weights/tensor_names.h"

namespace plimsoll::weights {

/// Returns the name of a head in the weights at `path` that differs from the embedding, although their configuration
/// ties the two (`layout` is that of tied weights). transformers uses such a head. Returns "" if there is no such head:
/// none, or a copy of the embedding. Reads both tensors if the file has a head, and nothing but names otherwise. A file
/// that cannot be read has none; the loading of its weights says what is wrong with it.
std::string untied_head(const std::filesystem::path& path, const Layout& layout);

/// Corrects an architecture from a configuration by the weights at `path`, other programs' files. If the configuration
/// ties the head to the embedding, and the weights have another head, it is untied. Adds notes: on such a head, on
/// files of weights in the folder that are not read, and on a configuration of the weights' own that says something
/// else.
void compare_with_weights(const std::filesystem::path& path, Architecture& found);

/// Does this for a Mamba2. `notes`: nullptr if notes are not needed.
void compare_with_weights(const std::filesystem::path& path, MambaConfig& found, std::vector<std::string>* notes);

}  // namespace plimsoll::weights
