// What goes wrong with a file that a key of the job names is told with the key.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "plimsoll/error.h"

namespace plimsoll {

/// work(); a UserError of it begins with "KEY: ". Kinds of errors of their own pass as they are.
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
