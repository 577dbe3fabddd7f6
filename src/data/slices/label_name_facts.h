// Declares what the reader of label names (data.label_names) does with each part.
#pragma once

#include "files/file_facts.h"

namespace plimsoll::label_name_lists {

inline constexpr FileFact kFacts[] = {
    {"list of label names", "number, name", "applied",
     "of each line; a number or a name that comes twice is refused; double quotes around a name are removed"},
    {"list of label names", "columns of colors", "ignored",
     "three or four numbers behind every name, or numbers before every name, as FreeSurfer, FSLeyes and ITK-SNAP "
     "write; a note says so"},
    {"list of label names", "further columns", "refused", "a name with a tab in it"},
    {"list of label names", "columns index and name", "applied",
     "in a table whose first line names them, as in BIDS; other columns are left out with a note"},
    {"list of label names", "lines that begin with #", "ignored", "comments"},
};
static_assert(are_complete(kFacts));

}  // namespace plimsoll::label_name_lists
