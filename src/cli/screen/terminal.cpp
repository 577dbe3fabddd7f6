#include "cli/screen/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace plimsoll {
namespace {

constexpr size_t kMinPipeColumns = 20, kMaxPipeColumns = 1000000;

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

// Returns the columns that the variable COLUMNS names; kPipeColumns if it has no such number.
size_t columns_of_pipe() {
  const std::string_view text = environment("COLUMNS");
  size_t columns = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), columns);
  const bool number = error == std::errc() && end == text.data() + text.size();
  return number && columns >= kMinPipeColumns && columns <= kMaxPipeColumns ? columns : kPipeColumns;
}

}  // namespace

bool is_terminal(int descriptor) {
  std::string_view kind = environment("TERM");
  return ::isatty(descriptor) == 1 && !kind.empty() && kind != "dumb";
}

bool color_allowed(int descriptor) {
  return is_terminal(descriptor) && environment("NO_COLOR").empty();
}

int terminal_width(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUnknownWidth;
  return size.ws_col;
}

Screen screen_of(int descriptor) {
  Screen screen;
  screen.bold = color_allowed(descriptor);
  if (::isatty(descriptor) != 1) {
    screen.columns = columns_of_pipe();
    return screen;
  }
  winsize size{};
  const bool known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0;
  screen.columns = known && size.ws_col > 0 ? size.ws_col : kUnknownWidth;
  screen.lines = known && size.ws_row > 0 ? size.ws_row : 24;
  return screen;
}

}  // namespace plimsoll
