// Writes the manual page plimsoll(1).
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace plimsoll::cli {

/// Returns the page in the format of troff (macros man), from the help of `app` and of its subcommands.
std::string man_page(const CLI::App& app);

}  // namespace plimsoll::cli
