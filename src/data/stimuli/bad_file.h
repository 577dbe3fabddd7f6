// Makes the error for an unusable file of a series or of its stimuli.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "plimsoll/error.h"

namespace plimsoll {

/// Returns the error "PATH: WHAT", to be thrown.
inline UserError bad_file(const std::filesystem::path& path, const std::string& what) {
  return UserError(fmt::format("{}: {}", path.string(), what), UserError::Kind::failure);
}

}  // namespace plimsoll
