#include "train/job/architecture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "plimsoll/error.h"
#include "train/job/model_kind.h"
#include "train/weights/decoder_fields.h"
#include "train/weights/gguf_source.h"

namespace plimsoll::job {

void take_architecture(const std::filesystem::path& file, const std::string& section, const Places& places,
                       DecoderConfig& config) {
  const weights::Architecture found =
      weights::is_gguf(file) ? weights::read_gguf_architecture(file) : weights::read_architecture(file);
  // Keys that are given must agree; 0 is no more than leaving a size to be the usual one.
  DecoderConfig said = config;
  std::vector<std::string> others;
  std::string first;
  weights::for_each_field([&](const char* name, auto place) {
    const std::string key = section + "." + name;
    using Value = std::remove_cvref_t<decltype(place(said))>;
    if (!places.given(key) || place(said) == place(found.config)) return;
    if constexpr (!std::is_same_v<Value, bool>)
      if (place(said) == Value{}) return;
    if (first.empty()) first = key;
    others.push_back(fmt::format("{} is {} in the job, {} in the file", key, place(said), place(found.config)));
  });
  if (!others.empty())
    refuse(places.of({first}),
           fmt::format("the architecture is that of {}; leave these keys out, or make them agree\n  {}", file.string(),
                       fmt::join(others, "\n  ")));
  const double dropout = config.dropout;
  config = found.config;
  config.dropout = dropout;
}

void take_architecture(Job& job, const Places& places, const std::filesystem::path& directory) {
  if (job.model.type != "decoder") return;
  const std::filesystem::path weights = directory / job.model.weights, config = directory / job.model.config;
  std::error_code error;
  if (!job.model.config.empty()) return take_architecture(config, "model", places, job.model.decoder);
  if (job.model.weights.empty()) return;
  if (std::filesystem::is_directory(weights, error) && !std::filesystem::exists(weights / "config.json", error))
    refuse(places.of({"model.weights"}),
           fmt::format("model.weights is the folder {}, which has no config.json to say the architecture; name one in "
                       "model.config",
                       weights.string()));
  if (std::filesystem::is_directory(weights, error) || weights::is_gguf(weights))
    take_architecture(weights, "model", places, job.model.decoder);
}

}  // namespace plimsoll::job
