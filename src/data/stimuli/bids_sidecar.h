// Reads the file of BIDS next to a NIfTI series: NAME.json of NAME.nii or NAME.nii.gz.
#pragma once

#include <filesystem>
#include <string>

namespace plimsoll {

/// Returns a question, for the end of a message, if the file next to the series says another time from volume to volume
/// than `seconds`, or times of single volumes; else "". Throws UserError (failure) if the file is no JSON object.
std::string sidecar_question(const std::filesystem::path& series, double seconds);

}  // namespace plimsoll
