// Adds the key of the job that names a file to errors about that file.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "plimsoll/error.h"

namespace plimsoll {

/// Returns work(). A UserError that it throws gets the prefix "KEY: "; MemoryUnavailable passes unchanged.
template <typename Work>
auto of_key(std::string_view key, Work&& work) -> decltype(work()) {
  try {
    return std::forward<Work>(work)();
  } catch (const MemoryUnavailable&) {
    throw;
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", key, error.what()), error.kind());
  }
}

}  // namespace plimsoll
