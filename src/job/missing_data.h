// Which of the files that a job reads its data from are not there, and what would make them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "plimsoll/job.h"

namespace plimsoll {

struct MissingFile {
  std::string key;  ///< of the job file: "data.files"
  std::filesystem::path file;
};

/// Files and folders that keys of `data` name and that do not exist. None of synthetic data.
std::vector<MissingFile> missing_data(const Job& job);

/// What to do about the first of them, for the end of a message: "run 'make text', which fetches it"; where nothing is
/// known that makes it, from where relative paths start.
std::string remedy_for(const Job& job, const MissingFile& missing);

/// Throws UserError (usage) where something is missing, with the first, its key, and what to do. Of data.files a job
/// with data.skip_bad may lack some.
void require_data(const Job& job);

}  // namespace plimsoll
