#include "cli/command.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "plimsoll/error.h"

namespace plimsoll::cli {

void print_result(const std::string& text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  throw UserError(fmt::format("cannot write to standard output: {}", std::generic_category().message(errno)),
                  UserError::Kind::failure);
}

}  // namespace plimsoll::cli
