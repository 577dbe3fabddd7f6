// Defines the keys of text data and of synthetic data.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "job/keys/key_kinds.h"
#include "job/keys/kinds.h"
#include "job/keys/shared_data_keys.h"

namespace plimsoll::job {

DataKind text_kind() {
  using D = DataConfig;
  DataKind kind;
  kind.type = "text";
  kind.meaning = "files cut into windows of tokens";
  kind.keys = {
      paths("data.files", &D::files, "files, relative to the job file"),
      path("data.cache_dir", &D::cache_dir, ".plimsoll-cache",
           "folder of cached token files, relative to the job file"),
  };
  kind.keys.front().help.default_value = "(required)";
  std::ranges::move(tokenizer_keys(), std::back_inserter(kind.keys));
  kind.uses_cache_folder = true;
  kind.check = [](const Job& job, const KeyLocations& locations) {
    if (job.data.files.empty())
      refuse(locations.of({"data.type"}),
             "data.files is missing; name the text to train on, for example data.files: [corpus.txt]");
    check_tokenizer(job, locations);
  };
  return kind;
}

DataKind synthetic_kind() {
  DataKind kind;
  kind.type = "synthetic";
  kind.from_files = false;
  kind.meaning = "random inputs of the model's shapes, drawn from the seed, to try out memory and speed without data";
  kind.keys = {integer("data.samples", &DataConfig::samples, {1, int64_t{1} << 32},
                       "synthetic: number of different samples, which are one epoch")};
  // Only this key determines the number of samples and the split.
  kind.origin = [](const Job& job) { return std::vector<Setting>{{"data.samples", job.data.samples}}; };
  return kind;
}

}  // namespace plimsoll::job
