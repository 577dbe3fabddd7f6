// Declares what the reader of lists of clips (data.list with data.type clips) does with each part.
#pragma once

#include "files/file_facts.h"

namespace plimsoll::clip_lists {

inline constexpr FileFact kFacts[] = {
    {"list of clips", "separator", "applied", "a tab; other numbers of cells than 2 to 5 are refused"},
    {"list of clips", "double quotes", "applied", "around a whole cell they are removed, with a note"},
    {"list of clips", "video, caption", "applied", "the first two cells; the path counts from the list's folder"},
    {"list of clips", "start, end", "applied", "in seconds; parts of one video that overlap are refused"},
    {"list of clips", "train, validation", "applied",
     "the last cell; lines of one video with two of them, and a list without train, are refused"},
    {"list of clips", "lines that begin with #", "ignored", "comments"},
};
static_assert(are_complete(kFacts));

}  // namespace plimsoll::clip_lists
