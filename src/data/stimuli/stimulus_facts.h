// Declares what the readers of fMRI series and of their stimuli (data.type stimuli) do with files next to the series.
#pragma once

#include "files/file_facts.h"

namespace plimsoll::stimuli {

inline constexpr FileFact kFacts[] = {
    {"list of labels", "label, run", "applied", "of each line; lines of one run follow one another"},
    {"list of labels", "separator", "applied", "blanks; a comma or semicolon before a number is refused"},
    {"mask of a series", "voxels", "applied",
     "other than 0, with a note if these have several numbers; the mask must lie on the grid of the series"},
    {"NAME.json of NAME.nii (BIDS)", "RepetitionTime", "applied",
     "another time than the header's is refused, unless data.repetition_time is set"},
    {"NAME.json of NAME.nii (BIDS)", "VolumeTiming", "refused", "unless data.repetition_time is set"},
    {"NAME.json of NAME.nii (BIDS)", "all others", "ignored", "how the series was recorded"},
    {"vectors of labels (safetensors)", "tensor of each label", "applied",
     "float32 [features], of one length, finite; a label without a vector is refused"},
    {"vectors of labels (safetensors)", "tensors of other labels", "ignored", "one file may serve several series"},
};
static_assert(are_complete(kFacts));

}  // namespace plimsoll::stimuli
