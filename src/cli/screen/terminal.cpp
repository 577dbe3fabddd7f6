#include "cli/screen/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "base/text.h"

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

namespace {

constexpr std::string_view kEllipsis = "…";
constexpr size_t kDescriptionColumn = 20;  ///< a line of help that begins here or later is a description

constexpr std::array<std::string_view, 20> kUnits = {"B",  "KiB", "MiB", "GiB", "TiB", "PiB", "s", "ms", "us", "%",
                                                     "KB", "MB",  "GB",  "k",   "M",   "G",   "T", "x",  "d",  "bytes"};

bool is_unit(std::string_view word) {
  while (!word.empty() && std::string_view(",;:.)").find(word.back()) != std::string_view::npos) word.remove_suffix(1);
  return std::ranges::find(kUnits, word.substr(0, word.find('/'))) != kUnits.end();
}

// Returns true for a number and its unit: "87.7" and "MiB", "21.7" and "k", "k" and "tokens/s".
bool belong_together(std::string_view word, std::string_view next) {
  if (word.empty()) return false;
  if (std::isdigit(static_cast<unsigned char>(word.back())) != 0) return is_unit(next);
  if (word == "x") return !next.empty() && std::isdigit(static_cast<unsigned char>(next.front())) != 0;  // "8 x 2"
  return (word == "k" || word == "M" || word == "G") && next.find("/s") != std::string_view::npos;
}

// Returns the words of a line with the spaces before them, each with its unit: "87.7 MiB", " of".
std::vector<std::string_view> pieces_of(std::string_view line) {
  std::vector<std::string_view> pieces;
  size_t begin = 0;  // begin of the piece, its spaces included
  while (begin < line.size()) {
    size_t word = std::min(line.find_first_not_of(' ', begin), line.size());
    size_t end = std::min(line.find(' ', word), line.size());
    while (end < line.size()) {
      const size_t next = end + 1, next_end = std::min(line.find(' ', next), line.size());
      if (!belong_together(line.substr(word, end - word), line.substr(next, next_end - next))) break;
      word = next;
      end = next_end;
    }
    pieces.push_back(line.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

std::string_view without_spaces_before(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

class Folder {
 public:
  Folder(size_t columns, size_t indent, LongWords words)
      : columns_(columns), indent_(indent + 1 < columns ? indent : 0), words_(words) {}

  void add_paragraph(std::string_view text) {
    for (std::string_view piece : pieces_of(text)) add(piece);
    end_line();
    line_.clear();
  }

  std::vector<std::string> take() { return std::move(lines_); }

 private:
  bool fits(std::string_view piece) const { return display_width(line_) + display_width(piece) <= columns_; }

  void add(std::string_view piece) {
    if (!fits(piece) && line_.find_first_not_of(' ') != std::string::npos) {
      end_line();
      piece = without_spaces_before(piece);
    }
    while (words_ == LongWords::cut && !fits(piece)) {
      const std::string_view part = fit_width(piece, columns_ - display_width(line_));
      if (part.empty()) break;  // a character of two columns, and only one column left
      line_ += part;
      piece.remove_prefix(part.size());
      end_line();
    }
    line_ += piece;
  }

  // Ends a line; the next one is indented.
  void end_line() {
    line_.erase(line_.find_last_not_of(' ') + 1);
    lines_.push_back(std::move(line_));
    line_ = std::string(indent_, ' ');
  }

  const size_t columns_, indent_;
  const LongWords words_;
  std::string line_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> folded_lines(std::string_view text, size_t columns, size_t indent, LongWords words) {
  Folder folder(columns, indent, words);
  while (true) {
    const size_t end = text.find('\n');
    folder.add_paragraph(text.substr(0, end));
    if (end == std::string_view::npos) return folder.take();
    text.remove_prefix(end + 1);
  }
}

std::string fold(std::string_view text, size_t columns, size_t indent) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  std::string all;
  for (const std::string& line : folded_lines(text, columns, indent)) all += line + "\n";
  return all;
}

std::string fold_columns(std::string_view text, size_t columns) {
  std::string all;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t begin = std::min(line.find_first_not_of(' '), line.size());
    size_t indent = begin < kDescriptionColumn ? begin + 4 : begin;
    if (const size_t gap = line.find("  ", begin); gap != std::string_view::npos) {
      const size_t column = std::min(line.find_first_not_of(' ', gap), line.size());
      if (column <= columns / 2) indent = column;
    }
    if (display_width(line) <= columns) {
      all += std::string(line) + "\n";
      continue;
    }
    // Spellings of an option, "--a-b,--a_b", are split if one line has no room for them.
    const bool too_long = std::ranges::any_of(pieces_of(line), [&](std::string_view piece) {
      return begin + display_width(without_spaces_before(piece)) > columns;
    });
    std::string apart;
    for (size_t i = 0; i < line.size(); ++i)
      apart += too_long && i > 0 && line[i - 1] == ',' && line[i] == '-' ? " -" : std::string(1, line[i]);
    all += fold(apart, columns, indent);
  }
  return all;
}

std::string shorten_end(std::string_view text, size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  if (columns == 0) return {};
  std::string_view kept = fit_width(text, columns - 1);
  while (kept.ends_with(' ') && columns > 2) kept.remove_suffix(1);
  return std::string(kept) + std::string(kEllipsis);
}

std::string shorten_middle(std::string_view text, size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  if (columns == 0) return {};
  const std::string_view front = fit_width(text, (columns - 1) / 3);
  std::string_view back = text.substr(front.size());
  const size_t room = columns - 1 - display_width(front);
  size_t over = display_width(back) - room;
  // Drops as many characters from the front of the rest as needed to remove the excess columns.
  while (over > 0 && !back.empty()) {
    size_t taken = 1;
    while (taken < back.size() && (static_cast<unsigned char>(back[taken]) & 0xc0) == 0x80) ++taken;
    over -= std::min(over, display_width(back.substr(0, taken)));
    back.remove_prefix(taken);
  }
  return std::string(front) + std::string(kEllipsis) + std::string(back);
}

}  // namespace plimsoll
