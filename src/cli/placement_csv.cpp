#include "cli/placement_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "base/file_error.h"
#include "base/text.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxFileBytes = GiB;

std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields;
  for (size_t begin = 0;;) {
    const size_t comma = line.find(',', begin);
    fields.emplace_back(trimmed(line.substr(begin, comma - begin)));
    if (comma == std::string_view::npos) return fields;
    begin = comma + 1;
  }
}

void append_line(const std::vector<std::string>& fields, std::string* text) {
  for (const std::string& field : fields) {
    *text += field;
    *text += ',';
  }
  text->back() = '\n';
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  PlacementTable parse() {
    text_ = without_byte_order_mark(text_);
    while (!text_.empty()) {
      const size_t end = text_.find('\n');
      const std::string_view line = trimmed(text_.substr(0, end));
      text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
      ++line_;
      if (line.empty()) continue;
      if (line.find('"') != std::string_view::npos)
        fail("quotes are not allowed: fields are plain text between commas");
      if (table_.columns.empty()) {
        read_header(line);
      } else {
        read_row(line);
      }
    }
    if (table_.columns.empty()) {
      line_ = 1;
      fail("no header; the first line names the columns: id,lower,upper,size");
    }
    return std::move(table_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(fmt::format("{}:{}: {}", name_, line_, what));
  }

  void read_header(std::string_view line) {
    table_.columns = fields_of(line);
    for (auto column = table_.columns.begin(); column != table_.columns.end(); ++column) {
      if (std::find(table_.columns.begin(), column, *column) != column) {
        fail(fmt::format("the column {} stands twice in the header", in_quotes(*column)));
      }
    }
    const auto place_of = [&](std::string_view wanted) {
      const auto found = std::find(table_.columns.begin(), table_.columns.end(), wanted);
      if (found == table_.columns.end()) {
        fail(fmt::format("the header has no column '{}': {}; it has to name id, lower, upper and size", wanted,
                         in_quotes(line)));
      }
      return static_cast<size_t>(found - table_.columns.begin());
    };
    id_ = place_of("id");
    lower_ = place_of("lower");
    upper_ = place_of("upper");
    size_ = place_of("size");
  }

  void read_row(std::string_view line) {
    std::vector<std::string> fields = fields_of(line);
    if (fields.size() != table_.columns.size()) {
      fail(fmt::format("{} fields where the header has {} columns: {}", fields.size(), table_.columns.size(),
                       in_quotes(line)));
    }
    const std::string& id = fields[id_];
    if (id.empty()) fail("an empty id");
    const auto [earlier, is_new] = line_of_id_.emplace(id, line_);
    if (!is_new) fail(fmt::format("the id {} already stands on line {}", in_quotes(id), earlier->second));
    const PlacementItem item{number(fields[lower_], "lower"), number(fields[upper_], "upper"),
                             number(fields[size_], "size")};
    if (item.upper < item.lower) {
      fail(fmt::format("upper ({}) is less than lower ({}); a buffer is live in [lower, upper)", item.upper,
                       item.lower));
    }
    if (item.size < 0) fail(fmt::format("a size of {} bytes; 0 or more is allowed", item.size));
    table_.items.push_back(item);
    table_.rows.push_back(std::move(fields));
  }

  int64_t number(const std::string& field, std::string_view column) const {
    int64_t value = 0;
    const char* const end = field.data() + field.size();
    const auto [stop, error] = std::from_chars(field.data(), end, value);
    if (error == std::errc::result_out_of_range) {
      fail(fmt::format("{} is {}; 64 bits hold no such number", column, in_quotes(field)));
    }
    if (error != std::errc() || stop != end) {
      fail(fmt::format("{} is {}; a whole number is needed", column, in_quotes(field)));
    }
    return value;
  }

  std::string_view text_;
  const std::string& name_;
  int64_t line_ = 0;
  PlacementTable table_;
  size_t id_ = 0, lower_ = 0, upper_ = 0, size_ = 0;  ///< indices of the columns
  std::unordered_map<std::string, int64_t> line_of_id_;
};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::string contents_of(const std::filesystem::path& path) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (!file) throw_file_error("read", path, errno);
  std::string text;
  std::array<char, 1 << 16> block;
  errno = 0;
  for (size_t got; (got = std::fread(block.data(), 1, block.size(), file.get())) > 0;) {
    text.append(block.data(), got);
    if (text.size() > static_cast<size_t>(kMaxFileBytes)) {
      throw UserError(fmt::format("{} is larger than {}, which no placement problem is", path.string(),
                                  format_bytes(kMaxFileBytes)));
    }
  }
  if (std::ferror(file.get()) != 0) throw_file_error("read", path, errno);
  return text;
}

}  // namespace

PlacementTable read_placement_csv(const std::filesystem::path& path) {
  return parse_placement_csv(contents_of(path), path.string());
}

PlacementTable parse_placement_csv(std::string_view text, const std::string& name) {
  return Parser(text, name).parse();
}

std::string to_csv(const PlacementTable& table, const Placement& placement) {
  check(placement.offsets.size() == table.rows.size(), "a placement of other buffers than the table's");
  std::vector<std::string> columns = table.columns;
  const auto place = static_cast<size_t>(std::find(columns.begin(), columns.end(), "offset") - columns.begin());
  if (place == columns.size()) columns.emplace_back("offset");
  std::string text;
  append_line(columns, &text);
  for (size_t i = 0; i < table.rows.size(); ++i) {
    std::vector<std::string> fields = table.rows[i];
    fields.resize(columns.size());
    fields[place] = std::to_string(placement.offsets[i]);
    append_line(fields, &text);
  }
  return text;
}

}  // namespace plimsoll
