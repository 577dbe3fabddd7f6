// Labeled series in a table, in an array with labels, and in an archive.
#include "data/series/series_file.h"
#include "fuzz.h"
#include "plimsoll/error.h"

using namespace plimsoll;

namespace {

void read(std::string_view input, const std::filesystem::path& file, const std::filesystem::path& labels) {
  const auto check = [](const TsFile& read) {
    for (const TsSeries& each : read.series) {
      fuzz::require(static_cast<int64_t>(each.values.size()) == each.length * read.channels,
                    "a series of other values");
      fuzz::require(each.label >= 0 && each.label < static_cast<int64_t>(read.classes.size()), "a label of no class");
    }
  };
  const BadSeries ends = [](const std::string& what) { throw UserError(what, UserError::Kind::failure); };
  fuzz::reads(input, [&] { check(read_series_file(file, labels, ends)); });
  fuzz::reads(input, [&] { check(read_series_file(file, labels, [](const std::string&) {})); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::vector<std::string> part = fuzz::parts(input, 2);
  if (part[0].starts_with("PK"))
    read(input, fuzz::write("swipe/input.npz", part[0]), {});
  else if (part[0].starts_with("\x93NUMPY"))
    read(input, fuzz::write("swipe/input.npy", part[0]), fuzz::write("swipe/labels.npy", part[1]));
  else
    read(input, fuzz::write("swipe/input.csv", part[0]), {});
  return 0;
}
