// Declares the filter for errors about files and names from outside: no message acts on a terminal.
#pragma once

#include <utility>

#include "base/text_width.h"
#include "plimsoll/error.h"

namespace plimsoll {

/// Returns work(). The message of a UserError passes through without_controls(), so that names and values from a file
/// reach no terminal as commands. Errors of a derived type pass as they are: their texts come from the system.
template <typename Work>
auto with_clean_errors(Work&& work) -> decltype(work()) {
  try {
    return std::forward<Work>(work)();
  } catch (const MemoryUnavailable&) {
    throw;
  } catch (const DiskUnavailable&) {
    throw;
  } catch (const UserError& error) {
    throw UserError(without_controls(error.what()), error.kind());
  }
}

}  // namespace plimsoll
