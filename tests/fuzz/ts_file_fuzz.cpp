// A .ts file of labeled series.
#include "files/ts_file.h"
#include "fuzz.h"
#include "plimsoll/error.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::filesystem::path file = fuzz::write("input.ts", input);
  const auto check = [](const TsFile& read) {
    for (const TsSeries& each : read.series) {
      fuzz::require(static_cast<int64_t>(each.values.size()) == each.length * read.channels,
                    "a series of other values");
      fuzz::require(each.label >= 0 && each.label < static_cast<int64_t>(read.classes.size()), "a label of no class");
    }
  };
  // The first series that cannot be read ends the reading, or is left out.
  fuzz::reads(input, [&] {
    check(read_ts_file(file, [](const std::string& what) { throw UserError(what, UserError::Kind::failure); }));
  });
  fuzz::reads(input, [&] { check(read_ts_file(file, [](const std::string&) {})); });
  return 0;
}
