// Defines the keys of `model.type: gesture_ssm`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "job/keys/key_kinds.h"
#include "job/keys/kinds.h"
#include "job/keys/values.h"
#include "models/config_checks.h"

namespace plimsoll {

inline GestureSsmConfig& part(Job& job, GestureSsmConfig*) {
  return job.model.gesture;
}

}  // namespace plimsoll

namespace plimsoll::job {
namespace {

constexpr IntegerRange kStates{1, int64_t{1} << 12};
constexpr IntegerRange kLayers{1, 1024};
constexpr IntegerRange kScale{2, 64};
constexpr IntegerRange kScales{1, 16};

// Converts a list that begins with 1. It has the divisor of all tokens for each scale, and 1 for the first: [1, 2, 4]
// becomes [2, 2]. Our lists have the divisor from one scale to the next.
std::vector<int64_t> steps_between(const Value& value, const std::vector<int64_t>& scales) {
  std::vector<int64_t> steps;
  for (size_t i = 1; i < scales.size(); ++i) {
    if (scales[i] <= scales[i - 1] || scales[i] % scales[i - 1] != 0)
      value.refuse_since(
          fmt::format("has {} behind {}; a list that begins with 1 says what each scale divides all tokens "
                      "by, a multiple of the one before: [1, 2, 4]",
                      scales[i], scales[i - 1]));
    steps.push_back(scales[i] / scales[i - 1]);
  }
  return steps;
}

// Returns the key of the scales. A number of scales halves the sequence from one to the next; a list has the divisors.
Key pooling_scales() {
  return {{"model.pooling_scales", kScales.text() + " | list of integers from 1 to 64", "1",
           "number of scales: each has an equal share of the layers, and from each scale to the next pairs of tokens "
           "are replaced by their mean, which halves activations; the head reads all scales. A list has the divisors "
           "of the token count: [3, 2] makes three scales with all, a third and a sixth of the tokens. A list that "
           "begins with 1 has divisors of all tokens: [1, 2] is [2], [1, 2, 4] is [2, 2]"},
          [](const Value& value, Job& job) {
            std::vector<int64_t>& scales = job.model.gesture.pooling_scales;
            scales.clear();
            if (value.node->kind != Node::Kind::list) {
              scales.assign(static_cast<size_t>(read_integer(value, kScales) - 1), 2);
              return;
            }
            const std::vector<const Node*>& items = value.node->items;
            const bool of_all = !items.empty() && value.with(items.front()).is("1");
            if (static_cast<int64_t>(items.size()) - (of_all ? 1 : 0) >= kScales.max)
              value.refuse(fmt::format("a list of fewer than {} integers", kScales.max));
            std::vector<int64_t> listed;
            for (const Node* item : items)
              listed.push_back(of_all && item == items.front() ? 1 : read_integer(value.with(item), kScale));
            scales = of_all ? steps_between(value, listed) : listed;
            if (of_all)
              job.notes.push_back(
                  fmt::format("{}: model.pooling_scales [{}] begins with 1, which is all tokens: it is [{}] here",
                              value.source->at(value.node->line), fmt::join(listed, ", "), fmt::join(scales, ", ")));
          }};
}

Key share_weights() {
  return {{"model.share_weights", "false | true | bidirectional", GestureSsmConfig{}.share_weights,
           "sharing of weights; false: own weights for each layer and direction; bidirectional: both directions of a "
           "layer share weights, and the projections before and after the scan are computed once; true: all layers and "
           "directions share one set, except the norms before the layers"},
          [](const Value& value, Job& job) {
            const std::optional<bool> stated = boolean_in(value);
            job.model.gesture.share_weights =
                stated ? (*stated ? "true" : "false") : read_word(value, {"false", "true", "bidirectional"});
          }};
}

Key use_checkpoint() {
  return {{"model.use_checkpoint", "auto | true | false", "auto", "another name of gradient_checkpointing"},
          [](const Value& value, Job& job) {
            job.model.gesture.use_checkpoint.reset();
            if (value.is("auto")) return;
            job.model.gesture.use_checkpoint = read_boolean(value);
            job.gradient_checkpointing = *job.model.gesture.use_checkpoint ? Choice::on : Choice::off;
          }};
}

SeriesConfig& series_of(Job& job) {
  return job.data.series;
}

Key ratio() {
  constexpr NumberRange range{.min = 0, .min_open = true, .max = 1};
  return number_at<SeriesConfig>(
      "data.train_ratio_of_vectors", series_of, &SeriesConfig::train_ratio_of_vectors, range,
      "fraction of a gesture's vectors in a sample: drawn again each time in training, evenly spaced in "
      "evaluation; activations shrink with it");
}

std::vector<Key> gesture_keys() {
  using G = GestureSsmConfig;
  return {
      integer("model.channels", &G::channels, kWidth, "values in a vector, in addition to its time"),
      integer("model.num_classes", &G::num_classes, kWidth, "number of gesture classes"),
      integer("model.hidden_dim", &G::hidden_dim, kWidth, "width of the residual stream"),
      integer(
          "model.num_layers", &G::num_layers, kLayers,
          "number of bidirectional layers; activations grow with them, and parameters unless share_weights is true"),
      integer("model.d_state", &G::d_state, kStates,
              "state values of each channel of the scan; 2 x d_state values per vector and direction are kept"),
      integer("model.expand", &G::expand, {1, 16}, "width of the scan, in hidden_dim"),
      integer("model.head_dim", &G::head_dim, kWidth,
              "channels of a head of the scan; must divide expand x hidden_dim"),
      integer("model.conv_width", &G::conv_width, {1, 4}, "taps of the causal convolution before the scan"),
      integer("model.chunk_size", &G::chunk_size, {1, 4096},
              "vectors in a chunk of the scan: long chunks cost arithmetic, short ones scratch"),
      share_weights(),
      pooling_scales(),
      use_checkpoint(),
      number("model.dropout", &G::dropout, {.min = 0, .max = 1, .max_open = true, .none = true},
             "dropout rate of the output of every layer"),
      number("model.norm_eps", &G::norm_eps, {.min = 0, .min_open = true, .max = 1, .max_open = true},
             "value added to the variance in norms"),
      integer_at<SeriesConfig>("data.length", series_of, &SeriesConfig::length, {1, model::kMaxSequence},
                               "vectors of a gesture"),
      ratio(),
  };
}

void check_gesture(const Job& job, const KeyLocations& locations) {
  const GestureSsmConfig& config = job.model.gesture;
  const int64_t vectors = job.data.series.vectors();
  if (const auto problem = model::problem_of(config, vectors)) refuse(locations.of({problem->key}), problem->message);
  // The command line may differ from the file.
  const bool replaced = locations.overridden("gradient_checkpointing") && !locations.overridden("model.use_checkpoint");
  if (config.use_checkpoint && !replaced &&
      job.gradient_checkpointing != (*config.use_checkpoint ? Choice::on : Choice::off))
    refuse(locations.of({"model.use_checkpoint"}),
           fmt::format(
               "model.use_checkpoint is {} and contradicts gradient_checkpointing; both set the same choice: remove "
               "one of them",
               *config.use_checkpoint));
  constexpr double countable = 4.6e18;  // 2^62
  const double width = static_cast<double>(config.expand) * static_cast<double>(config.hidden_dim);
  const double token = 64 * width + 16 * static_cast<double>(config.d_state) + static_cast<double>(config.channels);
  const int64_t samples = job.micro_batch_size.value_or(*job.batch_size);
  const double bytes =
      4 * static_cast<double>(samples) * static_cast<double>(vectors) *
      (static_cast<double>(config.num_layers) * token * 2 + width * static_cast<double>(config.d_state));
  if (bytes > countable)
    refuse(locations.of({"data.length", "micro_batch_size", "batch_size", "model.hidden_dim"}),
           fmt::format("{} samples at a time of {} vectors need about {:.0e} bytes, more than can be counted; make one "
                       "of data.length, model.hidden_dim, model.d_state and the batch smaller",
                       samples, vectors, bytes));
}

}  // namespace

ModelKind gesture_ssm_kind() {
  return {
      .type = "gesture_ssm",
      .meaning = "bidirectional state-space layers over sparse point sequences",
      .keys = gesture_keys(),
      .check = check_gesture,
      .data_types = {"series"},
      .origin =
          [](const Job& job) {
            const GestureSsmConfig& model = job.model.gesture;
            return std::vector<Setting>{{"model.share_weights", model.share_weights},
                                        {"model.pooling_scales", model.pooling_scales},
                                        {"model.num_layers", model.num_layers},
                                        {"model.head_dim", model.head_dim},
                                        {"model.norm_eps", model.norm_eps},
                                        {"data.length", job.data.series.length},
                                        {"data.train_ratio_of_vectors", job.data.series.train_ratio_of_vectors}};
          },
      .reducible_keys =
          {
              {"data.length", "shorter series", [](const Job& job) { return job.data.series.length; }, 4},
              {"model.hidden_dim", "a narrower model", [](const Job& job) { return job.model.gesture.hidden_dim; }, 32},
              {"model.d_state", "a smaller state", [](const Job& job) { return job.model.gesture.d_state; }, 8},
              {"model.num_layers", "fewer layers", [](const Job& job) { return job.model.gesture.num_layers; }},
          },
      .reducible_fraction = ReducibleFraction{"data.train_ratio_of_vectors", "of each series' vectors",
                                              [](const Job& job) { return job.data.series.train_ratio_of_vectors; }}};
}

}  // namespace plimsoll::job
