// Keys of a decoder-only transformer, as a model of its own and as a part of others.
#include <fmt/format.h>

#include <algorithm>

#include "train/job/divisors.h"
#include "train/job/key_kinds.h"
#include "train/job/model_kind.h"

namespace plimsoll::job {
namespace {

int64_t head_dim_of(const DecoderConfig& model) {
  return model.head_dim > 0 ? model.head_dim : model.hidden_size / model.num_heads;
}

constexpr double kCountable = 4.6e18;  // 2^62

void check_heads(const DecoderConfig& model, const std::string& section, const Places& places) {
  const bool rope = model.positions == "rope";
  const auto key = [&](const char* name) { return section + "." + name; };
  const auto better_heads = [&] {
    return for_example(near_divisors(model.num_heads, model.hidden_size, [&](int64_t heads) {
      return heads <= kMostHeads && (!rope || model.hidden_size / heads % 2 == 0);
    }));
  };
  if (model.head_dim == 0 && model.hidden_size % model.num_heads != 0)
    refuse(places.of({key("num_heads"), key("hidden_size")}),
           fmt::format("{}.num_heads is {}; it must divide hidden_size {}{}", section, model.num_heads,
                       model.hidden_size, better_heads()));
  if (model.num_kv_heads > 0 && model.num_heads % model.num_kv_heads != 0)
    refuse(places.of({key("num_kv_heads"), key("num_heads")}),
           fmt::format("{}.num_kv_heads is {}; it must divide num_heads {}{}", section, model.num_kv_heads,
                       model.num_heads,
                       for_example(near_divisors(model.num_kv_heads, model.num_heads, [](int64_t) { return true; }))));
  const int64_t head_dim = head_dim_of(model);
  if (rope && model.head_dim % 2 != 0)
    refuse(places.of({key("head_dim")}),
           fmt::format("{}.head_dim is {}; it must be even where positions are 'rope' (for example {})", section,
                       head_dim, head_dim + 1));
  if (rope && head_dim % 2 != 0)
    refuse(places.of({key("num_heads"), key("hidden_size"), key("positions")}),
           fmt::format("{}.num_heads is {}; where positions are 'rope', hidden_size {} / num_heads must be even{}",
                       section, model.num_heads, model.hidden_size, better_heads()));
  if (model.num_heads * head_dim > kWidest)
    refuse(places.of({key("head_dim"), key("num_heads")}),
           fmt::format("{}.head_dim {} x num_heads {} is {}; it must not exceed {}", section, head_dim, model.num_heads,
                       model.num_heads * head_dim, kWidest));
}

}  // namespace

std::vector<Key> decoder_keys(const std::string& section, const std::function<DecoderConfig&(Job&)>& place) {
  using D = DecoderConfig;
  constexpr IntegerRange words{1, kMostWords};
  return {
      {{section + ".vocab_size", "auto | " + words.text(), "auto",
        "rows of the embedding; auto: the tokenizer's, rounded up to 64. The logits of a micro batch grow with it"},
       [=](const Value& value, Job& job) {
         place(job).vocab_size = value.is("auto") ? 0 : read_integer(value, words, "auto");
       }},
      integer_at<D>(section + ".hidden_size", place, &D::hidden_size, {1, kWidest}, "width of the residual stream"),
      integer_at<D>(section + ".num_layers", place, &D::num_layers, {1, kMostLayers},
                    "activations and parameters grow with it"),
      integer_at<D>(section + ".num_heads", place, &D::num_heads, {1, kMostHeads},
                    "attention heads; must divide hidden_size unless "
                    "head_dim is given"),
      integer_at<D>(section + ".num_kv_heads", place, &D::num_kv_heads, {0, kMostHeads},
                    "key and value heads, a divisor of num_heads (grouped-query attention); 0: num_heads"),
      integer_at<D>(section + ".head_dim", place, &D::head_dim, {0, kWidest},
                    "width of a head, even where positions are rope; 0: hidden_size / num_heads"),
      integer_at<D>(
          section + ".intermediate_size", place, &D::intermediate_size, {0, kWidestFeedForward},
          "width of the feed-forward; 0: 4 x hidden_size (gelu), 8/3 x hidden_size rounded up to 64 (swiglu)"),
      word_at<D>(section + ".norm", place, &D::norm, {"rmsnorm", "layernorm"},
                 "normalisation before attention and feed-forward"),
      word_at<D>(section + ".positions", place, &D::positions, {"rope", "learned"},
                 "rotary, or an embedding of sequence_length rows"),
      word_at<D>(section + ".activation", place, &D::activation, {"swiglu", "gelu"},
                 "swiglu has three feed-forward matrices, gelu two"),
      boolean_at<D>(section + ".tie_embeddings", place, &D::tie_embeddings,
                    "the head uses the embedding's weight: vocab_size x hidden_size parameters fewer"),
      boolean_at<D>(section + ".attention_bias", place, &D::attention_bias,
                    "biases on query, key, value and output projections"),
      boolean_at<D>(section + ".mlp_bias", place, &D::mlp_bias, "biases on the feed-forward projections"),
      integer_at<D>(section + ".sliding_window", place, &D::sliding_window, {0, kLongestSequence},
                    "positions a token looks back on, itself included; 0: all"),
      number_at<D>(section + ".dropout", place, &D::dropout, {.least = 0, .most = 1, .most_open = true},
                   "on attention output and feed-forward output"),
      number_at<D>(section + ".norm_eps", place, &D::norm_eps,
                   {.least = 0, .least_open = true, .most = 1, .most_open = true}, "added to the variance"),
      number_at<D>(section + ".rope_theta", place, &D::rope_theta, {.least = 1}, "base of the rotary frequencies"),
  };
}

// Everything that is later multiplied in int64_t, from above and in floating point, which cannot overflow.
void check_decoder(const DecoderConfig& model, const std::string& section, int64_t sequence, int64_t at_a_time,
                   const Places& places) {
  check_heads(model, section, places);
  const auto tokens = static_cast<double>(sequence);
  const double words = static_cast<double>(model.vocab_size > 0 ? model.vocab_size : int64_t{1} << 18);
  const double feed_forward =
      static_cast<double>(model.intermediate_size > 0 ? model.intermediate_size : 4 * model.hidden_size);
  const double heads = static_cast<double>(model.num_heads);
  const double widest =
      std::max({static_cast<double>(model.hidden_size), feed_forward, heads * static_cast<double>(head_dim_of(model))});
  // A layer keeps some dozens of rows a token and at most two attention matrices with their gradients; 4 bytes each.
  const double layer = 64 * widest + 4 * heads * tokens;
  const double bytes =
      4 * static_cast<double>(at_a_time) * tokens * (static_cast<double>(model.num_layers) * layer + 4 * words);
  if (bytes > kCountable)
    refuse(places.of({"data.sequence_length", "micro_batch_size", "batch_size", section + ".num_layers"}),
           fmt::format("data.sequence_length {} with {} sequences at a time needs about {:.0e} bytes, more than can be "
                       "counted; make one of them smaller",
                       sequence, at_a_time, bytes));
}

std::map<std::string, std::string> decoder_origin(const DecoderConfig& model, const std::string& section) {
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  return {
      {section + ".vocab_size", text(model.vocab_size)},
      {section + ".hidden_size", text(model.hidden_size)},
      {section + ".num_layers", text(model.num_layers)},
      {section + ".num_heads", text(model.num_heads)},
      {section + ".num_kv_heads", text(model.num_kv_heads > 0 ? model.num_kv_heads : model.num_heads)},
      {section + ".head_dim", text(model.head_dim > 0 ? model.head_dim : model.hidden_size / model.num_heads)},
      {section + ".norm", model.norm},
      {section + ".positions", model.positions},
      {section + ".activation", model.activation},
      {section + ".tie_embeddings", text(model.tie_embeddings)},
      {section + ".attention_bias", text(model.attention_bias)},
      {section + ".mlp_bias", text(model.mlp_bias)},
      {section + ".sliding_window", text(model.sliding_window)},
      {section + ".norm_eps", text(model.norm_eps)},
      {section + ".rope_theta", text(model.rope_theta)},
  };
}

ModelKind decoder_kind() {
  ModelKind kind;
  kind.type = "decoder";
  kind.meaning = "a decoder-only transformer";
  kind.keys = decoder_keys("model", [](Job& job) -> DecoderConfig& { return job.model.decoder; });
  kind.keys.push_back(integer("data.sequence_length", &DataConfig::sequence_length, {1, kLongestSequence},
                              "tokens of a window; activations grow with it"));
  kind.check = [](const Job& job, const Places& places) {
    check_decoder(job.model.decoder, "model", job.data.sequence_length, job.micro_batch_size.value_or(*job.batch_size),
                  places);
    const double tokens = static_cast<double>(job.max_steps) * static_cast<double>(kLargestBatch) *
                          static_cast<double>(job.data.sequence_length);
    if (tokens > kCountable)
      refuse(places.of({"max_steps", "data.sequence_length"}),
             fmt::format("max_steps {} with data.sequence_length {} are more tokens than can be counted", job.max_steps,
                         job.data.sequence_length));
  };
  kind.data_types = {"text"};
  kind.origin = [](const Job& job) {
    auto origin = decoder_origin(job.model.decoder, "model");
    origin["data.sequence_length"] = fmt::format("{}", job.data.sequence_length);
    return origin;
  };
  kind.shrinks = {
      {"data.sequence_length", "a shorter sequence", [](const Job& job) { return job.data.sequence_length; }, 8},
      {"model.num_layers", "fewer layers", [](const Job& job) { return job.model.decoder.num_layers; }},
      {"model.intermediate_size", "a narrower feed-forward",
       [](const Job& job) {
         const DecoderConfig& model = job.model.decoder;
         if (model.intermediate_size > 0) return model.intermediate_size;
         return model.activation == "gelu" ? 4 * model.hidden_size : (8 * model.hidden_size / 3 + 63) / 64 * 64;
       },
       64},
  };
  return kind;
}

}  // namespace plimsoll::job
