// Declares what the readers of lists and folders of pictures (data.type pictures) do with each part.
#pragma once

#include "files/file_facts.h"

namespace plimsoll::picture_lists {

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
