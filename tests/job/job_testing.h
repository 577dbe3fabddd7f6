// Declares helpers that parse job files from a string, or return the parser's message.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/job.h"
#include "refusals.h"

namespace plimsoll {

/// Parses `yaml`, a whole job file.
inline Job parsed_file(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return parse_job(yaml, "job.yaml", "", overrides);
}

/// Parses a job file of data.files in line 1 and `yaml` from line 2 on.
inline Job parsed(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return parsed_file("data.files: a.txt\n" + yaml, overrides);
}

inline std::string file_refusal(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return refusal_of([&] { parsed_file(yaml, overrides); });
}

inline std::string refusal(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return refusal_of([&] { parsed(yaml, overrides); });
}

}  // namespace plimsoll
