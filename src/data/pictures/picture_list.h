// Which pictures, masks and prompts there are: pairs by name in two folders, or lines of a list.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/sample_data.h"

namespace plimsoll {

/// A structure that is asked for in a picture.
struct PictureTask {
  std::filesystem::path image, mask;
  std::optional<int64_t> value;  ///< of the mask's pixels that belong to it; empty: all that are not 0
  std::string structure;         ///< its name; empty where a list has a prompt in its place
  std::string prompt, answer;    ///< as a list has them; empty: data.prompt and data.answer
  std::string split;             ///< train | validation | test, as a list has it; empty: by the job's fractions
  std::string place;             ///< "pairs.csv:3", or the mask, for messages
};

/// Of config.pictures.images and masks: every picture (.png, .jpg, .jpeg) with the mask of its name in the other
/// folder, or of its name and _mask, _masks, _seg, _segmentation or _label. Masks may lie in folders within that
/// folder, one a structure, which are called as it is (_ for blanks); a picture need not have a mask in each. Otherwise
/// config.slices.label_names gives the structures of a mask's numbers, and without it everything that is not 0 is the
/// structure that config.slices.structures names.
///
/// Of config.pictures.list: a table (.csv, .tsv; files/csv_file.h) whose first line names the columns, or JSON lines
/// (.jsonl), an object each. `image` and `mask` are paths from the list's folder; `structure`, `value`, `prompt`,
/// `answer` and `split` may be there. A line without structure, value and prompt has all structures of label_names.
///
/// Names that match none of config.slices.structures are left out. Throws UserError that names the folder, or the
/// list's line.
std::vector<PictureTask> picture_tasks(const DataConfig& config);

}  // namespace plimsoll
