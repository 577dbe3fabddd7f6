// Declares the list of pictures, masks and prompts: pairs by name in two folders, or lines of a list.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "files/file_kind.h"
#include "plimsoll/sample_data.h"

namespace plimsoll {

/// A structure to be segmented in a picture.
struct PictureTask {
  std::filesystem::path image, mask;
  std::optional<int64_t> value;  ///< value of the mask's pixels of the structure; empty: all values except 0
  std::string structure;         ///< its name; empty if a list has a prompt instead
  std::string prompt, answer;    ///< the list's; empty: data.prompt and data.answer
  std::string split;             ///< the list's train | validation | test; empty: by the job's fractions
  std::string place;             ///< "pairs.csv:3", or the mask; for messages
};

/// Returns true if the file's name ends as that of a picture: .png, .jpg or .jpeg, in any case.
bool is_picture_file(const std::filesystem::path& file);

/// Returns the tasks of config.pictures.images and masks, or of config.pictures.list.
///
/// Folders: every picture (.png, .jpg, .jpeg) is paired with the mask of its name in the other folder, or of its name
/// and _mask, _masks, _seg, _segmentation or _label. Masks may be in subfolders, one for each structure. The
/// subfolder's name is the structure's name (_ for blanks). A picture need not have a mask in each subfolder. For masks
/// outside of subfolders, config.slices.label_names gives the structures of the mask's values. Without label_names
/// every value except 0 is the structure that config.slices.structures names.
///
/// List: a table (.csv, .tsv; files/csv_file.h) whose first line names the columns, or JSON lines (.jsonl), one object
/// a line. `image` and `mask` are paths relative to the list's folder. `structure`, `value`, `prompt`, `answer` and
/// `split` are optional. A line without structure, value and prompt has all structures of label_names.
///
/// Names that match none of config.slices.structures are left out. Throws UserError that names the folder, or the
/// list's line.
std::vector<PictureTask> picture_tasks(const DataConfig& config);

}  // namespace plimsoll

namespace plimsoll::picture_lists {

/// The treatment of each part of a list or a folder of pictures (data.type pictures).
inline constexpr FileFact kFacts[] = {
    {"list of pictures", "image, mask", "applied", "paths that count from the list's folder"},
    {"list of pictures", "structure, prompt, answer", "applied", "texts of the sample"},
    {"list of pictures", "value", "applied", "the mask's number, from 0 to 65535"},
    {"list of pictures", "split", "applied", "train, validation, test, or empty"},
    {"list of pictures", "all other columns", "refused", "in tables and in lines of JSON; remove them"},
    {"list of pictures", "first column without a name", "applied",
     "an index that counts is left out with a note; other values are refused"},
    {"folder of pictures", ".png, .jpg, .jpeg", "applied", "a mask has its picture's name, or NAME_mask and the like"},
    {"folder of pictures", "pictures without a mask", "refused", "unless data.skip_bad is true"},
    {"folder of pictures", "two pictures of one name", "refused", "leave one"},
    {"folder of pictures", "folders of masks", "applied", "each has the masks of the structure that it is named after"},
    {"folder of pictures", "other files, and masks without a picture", "ignored", "a note names them"},
    {"folder of pictures", "files that begin with a dot", "ignored", "they are hidden"},
};
static_assert(are_complete(kFacts));

}  // namespace plimsoll::picture_lists
