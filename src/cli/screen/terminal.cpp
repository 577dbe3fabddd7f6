#include "cli/screen/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace plimsoll {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

}  // namespace

bool is_terminal(int descriptor) {
  std::string_view kind = environment("TERM");
  return ::isatty(descriptor) == 1 && !kind.empty() && kind != "dumb";
}

bool colour_allowed(int descriptor) {
  return is_terminal(descriptor) && environment("NO_COLOR").empty();
}

int terminal_width(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUnknownWidth;
  return size.ws_col;
}

Screen screen_of(int descriptor) {
  Screen screen;
  screen.bold = colour_allowed(descriptor);
  screen.columns = kPipeColumns;
  if (::isatty(descriptor) != 1) return screen;
  winsize size{};
  const bool known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0;
  screen.columns = known && size.ws_col > 0 ? size.ws_col : kUnknownWidth;
  screen.lines = known && size.ws_row > 0 ? size.ws_row : 24;
  return screen;
}

}  // namespace plimsoll
