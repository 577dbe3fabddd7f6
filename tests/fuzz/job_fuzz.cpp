// A job file and overrides of the command line.
#include "fuzz.h"
#include "plimsoll/job.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  std::vector<std::string> part = fuzz::parts(input, 2);
  std::vector<std::string> overrides;
  for (std::string_view rest = part[1]; !rest.empty() && overrides.size() < 16;) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    if (end > 0) overrides.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  // Files that are often next to jobs: none is read unless the job names it.
  static const bool once = [] {
    fuzz::decoy("config.json", "{}");
    fuzz::decoy("tokenizer.json", "{}");
    fuzz::decoy("other.yaml", "seed: 1");
    fuzz::decoy("notes.txt", "text");
    return true;
  }();
  fuzz::require(once, "no decoys");
  const std::filesystem::path file = fuzz::write("job.yaml", part[0]);
  // Several mistakes are a list, a line each.
  fuzz::reads(input, [&] { read_job(file, overrides); }, {.lines = true, .longest = 20'000});
  return 0;
}
