// Defines the keys of `model.type: mamba`.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "job/keys/key_kinds.h"
#include "job/keys/kinds.h"
#include "job/keys/values.h"
#include "models/config_checks.h"
#include "weights/mamba_family.h"
#include "weights/tensor_names.h"

namespace plimsoll {

inline MambaConfig& part(Job& job, MambaConfig*) {
  return job.model.mamba;
}

}  // namespace plimsoll

namespace plimsoll::job {
namespace {

using M = MambaConfig;
constexpr IntegerRange kWords{1, model::kMaxVocabulary};
constexpr NumberRange kStep{.min = 0};

Key time_step_limit() {
  const std::string type = "none | list of 2 numbers, rising from 0 or more";
  return {{"model.time_step_limit", type, "none", "lower and upper limit of the scan's time steps; none: no limits"},
          [=](const Value& value, Job& job) {
            MambaConfig& config = job.model.mamba;
            config.min_step = MambaConfig{}.min_step;
            config.max_step = MambaConfig{}.max_step;
            if (value.is("none")) return;
            if (value.node->kind != Node::Kind::list || value.node->items.size() != 2)
              value.refuse(fmt::format("{}: [0.001, 0.1]", type));
            config.min_step = read_number(value.with(value.node->items[0]), kStep);
            config.max_step = read_number(value.with(value.node->items[1]), kStep);
          }};
}

std::vector<Key> mamba_keys() {
  return {
      {{"model.vocab_size", "auto | " + kWords.text(), "auto",
        "rows of the embedding; auto: the tokenizer's, rounded up to 64. The logits of a micro batch grow with it"},
       [](const Value& value, Job& job) {
         job.model.mamba.vocab_size = value.is("auto") ? 0 : read_integer(value, kWords, "auto");
       }},
      integer("model.hidden_size", &M::hidden_size, {1, model::kMaxWidth}, "width of the residual stream"),
      integer("model.num_layers", &M::num_layers, {1, model::kMaxLayers},
              "number of layers; activations and parameters grow with it"),
      integer(
          "model.state_size", &M::state_size, {1, 4096},
          "state values of each channel of the scan; 2 x num_groups x state_size values per token and layer are kept"),
      integer("model.expand", &M::expand, {1, 16}, "width of the scan, in hidden_size"),
      integer("model.head_dim", &M::head_dim, {1, model::kMaxWidth},
              "channels of a head of the scan; must divide expand x hidden_size"),
      integer("model.num_groups", &M::num_groups, {1, model::kMaxHeads},
              "groups of heads with one B and C, and one norm; must divide the heads"),
      integer("model.conv_width", &M::conv_width, {1, model::kMaxConvTaps},
              "taps of the causal convolution before the scan"),
      boolean("model.conv_bias", &M::conv_bias, "a bias on the causal convolution"),
      boolean("model.projection_bias", &M::projection_bias, "biases on the mixer's projections in and out"),
      integer("model.chunk_size", &M::chunk_size, {1, model::kMaxSequence},
              "tokens in a chunk of the scan: long chunks cost arithmetic, short ones scratch"),
      time_step_limit(),
      boolean("model.tie_embeddings", &M::tie_embeddings,
              "use the embedding's weight in the head: vocab_size x hidden_size fewer parameters"),
      number("model.norm_eps", &M::norm_eps, {.min = 0, .min_open = true, .max = 1, .max_open = true},
             "value added to the variance in norms"),
      path("model.config", &ModelConfig::config, "(none)",
           "config.json of transformers (mamba2), or its folder, which sets the model's other keys; none: the one next "
           "to model.weights, if any"),
      integer("data.sequence_length", &DataConfig::sequence_length, {1, model::kMaxSequence},
              "tokens of a window; activations grow with it"),
  };
}

void check_mamba(const Job& job, const KeyLocations& locations) {
  const MambaConfig& config = job.model.mamba;
  if (const auto problem = model::problem_of(config)) refuse(locations.of({problem->key}), problem->message);
  const double tokens = static_cast<double>(job.data.sequence_length);
  const auto at_a_time = static_cast<double>(job.micro_batch_size.value_or(*job.batch_size));
  const double words = static_cast<double>(config.vocab_size > 0 ? config.vocab_size : int64_t{1} << 18);
  const double width = static_cast<double>(model::scan_width_of(config)),
               state = static_cast<double>(config.state_size);
  const double chunks = std::ceil(tokens / static_cast<double>(config.chunk_size));
  const double layer =
      tokens * (64 * width + 16 * static_cast<double>(config.num_groups) * state) + 4 * chunks * width * state;
  const double bytes = 4 * at_a_time * (static_cast<double>(config.num_layers) * layer + 4 * tokens * words);
  if (bytes > kCountable)
    refuse(locations.of({"data.sequence_length", "micro_batch_size", "batch_size", "model.num_layers"}),
           fmt::format("data.sequence_length {} with {} sequences at a time needs about {:.0e} bytes, more than can be "
                       "counted; make one of them smaller",
                       job.data.sequence_length, at_a_time, bytes));
  const double all = static_cast<double>(job.max_steps.value_or(0)) * static_cast<double>(kMaxBatch) * tokens;
  if (all > kCountable)
    refuse(locations.of({"max_steps", "data.sequence_length"}),
           fmt::format("max_steps {} with data.sequence_length {} are more tokens than can be counted", *job.max_steps,
                       job.data.sequence_length));
}

void apply_mamba_file(Job& job, const KeyLocations& locations, const std::filesystem::path& directory) {
  const auto file = architecture_file(job.model.weights, job.model.config, "model", locations, directory);
  if (file.empty()) return;
  MambaConfig& config = job.model.mamba;
  MambaConfig found = weights::read_mamba_config(file, &job.notes);
  if (!job.model.weights.empty()) weights::compare_with_weights(directory / job.model.weights, found, &job.notes);
  must_agree(
      file, "model", locations, [](auto&& visit) { weights::for_each_mamba_field(visit); }, config, found);
  // The job may choose the chunks of the scan.
  if (locations.given("model.chunk_size")) found.chunk_size = config.chunk_size;
  config = found;
}

}  // namespace

ModelKind mamba_kind() {
  return {
      .type = "mamba",
      .meaning = "a language model of Mamba-2 layers",
      .keys = mamba_keys(),
      .check = check_mamba,
      .data_types = {"text"},
      .origin =
          [](const Job& job) {
            const MambaConfig& model = job.model.mamba;
            return std::vector<Setting>{{"model.vocab_size", model.vocab_size},
                                        {"model.num_layers", model.num_layers},
                                        {"model.head_dim", model.head_dim},
                                        {"model.num_groups", model.num_groups},
                                        {"model.time_step_limit", std::array{model.min_step, model.max_step}},
                                        {"model.tie_embeddings", model.tie_embeddings},
                                        {"model.norm_eps", model.norm_eps},
                                        {"data.sequence_length", job.data.sequence_length}};
          },
      .reducible_keys =
          {
              {"data.sequence_length", "a shorter sequence", [](const Job& job) { return job.data.sequence_length; }, 8,
               1},
              {"model.num_layers", "fewer layers", [](const Job& job) { return job.model.mamba.num_layers; }},
              {"model.state_size", "a smaller state", [](const Job& job) { return job.model.mamba.state_size; }, 8},
          },
      .reads_token_windows = true,
      .vocabulary = VocabularyKey{"model.vocab_size", [](Job& job) -> int64_t& { return job.model.mamba.vocab_size; }},
      .decoder_layers = "layers",
      .apply_architecture = apply_mamba_file};
}

}  // namespace plimsoll::job
