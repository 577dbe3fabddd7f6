#include "train/job/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "model/fmri_config.h"
#include "plimsoll/error.h"
#include "train/job/divisors.h"
#include "train/job/keys.h"

namespace plimsoll::job {
namespace {

[[noreturn]] void refuse(const std::string& place, const std::string& what) {
  throw UserError(place + ": " + what);
}

int64_t head_dim_of(const DecoderConfig& model) {
  return model.head_dim > 0 ? model.head_dim : model.hidden_size / model.num_heads;
}

void check_heads(const DecoderConfig& model, const Places& places) {
  const bool rope = model.positions == "rope";
  const auto better_heads = [&] {
    return for_example(near_divisors(model.num_heads, model.hidden_size, [&](int64_t heads) {
      return heads <= kMostHeads && (!rope || model.hidden_size / heads % 2 == 0);
    }));
  };
  if (model.head_dim == 0 && model.hidden_size % model.num_heads != 0)
    refuse(places.of({"model.num_heads", "model.hidden_size"}),
           fmt::format("model.num_heads is {}; it must divide hidden_size {}{}", model.num_heads, model.hidden_size,
                       better_heads()));
  if (model.num_kv_heads > 0 && model.num_heads % model.num_kv_heads != 0)
    refuse(places.of({"model.num_kv_heads", "model.num_heads"}),
           fmt::format("model.num_kv_heads is {}; it must divide num_heads {}{}", model.num_kv_heads, model.num_heads,
                       for_example(near_divisors(model.num_kv_heads, model.num_heads, [](int64_t) { return true; }))));
  const int64_t head_dim = head_dim_of(model);
  if (rope && model.head_dim % 2 != 0)
    refuse(places.of({"model.head_dim"}),
           fmt::format("model.head_dim is {}; it must be even where positions are 'rope' (for example {})", head_dim,
                       head_dim + 1));
  if (rope && head_dim % 2 != 0)
    refuse(places.of({"model.num_heads", "model.hidden_size", "model.positions"}),
           fmt::format("model.num_heads is {}; where positions are 'rope', hidden_size {} / num_heads must be even{}",
                       model.num_heads, model.hidden_size, better_heads()));
  if (model.num_heads * head_dim > kWidest)
    refuse(places.of({"model.head_dim", "model.num_heads"}),
           fmt::format("model.head_dim {} x num_heads {} is {}; it must not exceed {}", head_dim, model.num_heads,
                       model.num_heads * head_dim, kWidest));
}

void check_data(const Job& job, const Places& places) {
  const DataConfig& data = job.data;
  if (data.type == "text" && job.model.type != "decoder")
    refuse(places.of({"data.type", "model.type"}),
           fmt::format("data.type is 'text'; a model of type {} takes data.type: synthetic", job.model.type));
  if (data.type == "text" && data.files.empty())
    refuse(places.of({"data.type"}),
           "data.files is missing; name the text to train on, for example files: [corpus.txt]");
  if (data.tokenizer == "gpt2" && data.tokenizer_file.empty())
    refuse(places.of({"data.tokenizer"}),
           "data.tokenizer is 'gpt2'; it needs data.tokenizer_file, a tiktoken rank file");
}

void check_checkpoint(const Job& job, const Places& places) {
  if (job.checkpoint.every_n_steps > 0 && job.checkpoint.directory.empty())
    refuse(places.of({"checkpoint.every_n_steps"}),
           fmt::format("checkpoint.every_n_steps is {}, but there is no checkpoint.directory to write to",
                       job.checkpoint.every_n_steps));
}

void check_dtype(const Job& job, const Places& places) {
  if (!job.model.dtype) return;
  const DType dtype = *job.model.dtype;
  if (dtype == DType::float16 && job.precision != Precision::fp16_mixed)
    refuse(places.of({"model.dtype"}),
           "model.dtype is float16, whose small gradients need loss scaling; set precision: 16-mixed, or model.dtype: "
           "bfloat16");
  if (job.precision == Precision::bf16_true && dtype != DType::bfloat16)
    refuse(places.of({"model.dtype"}),
           fmt::format(
               "model.dtype is {}; with precision bf16-true weights are bfloat16: leave it auto, or set precision: "
               "bf16-mixed",
               name_of(dtype)));
  if (!job.precision)
    refuse(
        places.of({"model.dtype"}),
        fmt::format("model.dtype is {}, and precision is auto, which chooses the weights' type too; name a precision",
                    name_of(dtype)));
}

void check_fine_tuning(const FineTuning& tuning, const Places& places) {
  const LoraConfig &lora = tuning.lora, usual;
  const QuantizeConfig &quantize = tuning.quantize, plain;
  const auto needs_modules = [&](const char* key, bool changed, const char* section, const char* example) {
    if (changed)
      refuse(places.of({key}), fmt::format("{} is given, but {}.modules names no layers; for example modules: ['{}']",
                                           key, section, example));
  };
  if (lora.modules.empty()) {
    needs_modules("lora.rank", lora.rank != usual.rank, "lora", "*.qkv");
    needs_modules("lora.alpha", lora.alpha != usual.alpha, "lora", "*.qkv");
    needs_modules("lora.dropout", lora.dropout != usual.dropout, "lora", "*.qkv");
  }
  if (quantize.modules.empty()) {
    needs_modules("quantize.format", quantize.format != plain.format, "quantize", "*.mlp");
    needs_modules("quantize.double_scales", quantize.double_scales != plain.double_scales, "quantize", "*.mlp");
  }
}

void check_fmri(const Job& job, const Places& places) {
  if (const auto problem = model::problem_of(job.model.fmri)) refuse(places.of({problem->key}), problem->message);
  const FmriAutoencoderConfig& config = job.model.fmri;
  constexpr double countable = 4.6e18;  // 2^62, as below
  double numbers = 64 * (static_cast<double>(config.voxels) +
                         2 * static_cast<double>(config.fmri.width) *
                             static_cast<double>(config.fmri.depth + config.fmri.decoder_depth));
  const auto side = static_cast<double>(config.video_size) / static_cast<double>(config.video_patch);
  for (const auto& [tokens, part, features] :
       {std::tuple{static_cast<double>(config.video_frames) * side * side, &config.video,
                   3.0 * static_cast<double>(config.video_patch) * static_cast<double>(config.video_patch)},
        {static_cast<double>(config.audio_frames), &config.audio, static_cast<double>(config.audio_mels)},
        {static_cast<double>(config.text_tokens), &config.text, static_cast<double>(config.text_features)}})
    numbers += tokens * (8 * features + 64 * static_cast<double>(part->width) *
                                            static_cast<double>(part->depth + part->decoder_depth + 1));
  const double bytes = 4 * numbers * static_cast<double>(job.micro_batch_size.value_or(*job.batch_size));
  if (bytes > countable)
    refuse(
        places.of({"model.video.frames", "model.video.size", "micro_batch_size", "batch_size"}),
        fmt::format("{} samples at a time of so many frames, bands and tokens need about {:.0e} bytes, more than can "
                    "be counted; make one of them smaller",
                    job.micro_batch_size.value_or(*job.batch_size), bytes));
}

/// Everything that is later multiplied in int64_t, from above and in floating point, which cannot overflow.
void check_countable(const Job& job, const Places& places) {
  constexpr double countable = 4.6e18;  // 2^62
  const DecoderConfig& model = job.model.decoder;
  const double sequence = static_cast<double>(job.data.sequence_length);
  const double at_a_time = static_cast<double>(job.micro_batch_size.value_or(*job.batch_size));
  const double words = static_cast<double>(model.vocab_size > 0 ? model.vocab_size : int64_t{1} << 18);
  const double head_dim = static_cast<double>(head_dim_of(model));
  const double feed_forward =
      static_cast<double>(model.intermediate_size > 0 ? model.intermediate_size : 4 * model.hidden_size);
  const double heads = static_cast<double>(model.num_heads);
  const double widest = std::max({static_cast<double>(model.hidden_size), feed_forward, heads * head_dim});
  // A layer keeps some dozens of rows a token and at most two attention matrices with their gradients; 4 bytes each.
  const double layer = 64 * widest + 4 * heads * sequence;
  const double bytes = 4 * at_a_time * sequence * (static_cast<double>(model.num_layers) * layer + 4 * words);
  if (bytes > countable)
    refuse(places.of({"data.sequence_length", "micro_batch_size", "batch_size", "model.num_layers"}),
           fmt::format("data.sequence_length {} with {} sequences at a time needs about {:.0e} bytes, more than can be "
                       "counted; make one of them smaller",
                       job.data.sequence_length, at_a_time, bytes));
  const double tokens = static_cast<double>(job.max_steps) * static_cast<double>(kLargestBatch) * sequence;
  if (tokens > countable)
    refuse(places.of({"max_steps", "data.sequence_length"}),
           fmt::format("max_steps {} with data.sequence_length {} are more tokens than can be counted", job.max_steps,
                       job.data.sequence_length));
}

/// A key of another type of model or data would do nothing. What the file says of a type that the command line has
/// replaced is no mistake: `data.type=synthetic` tries a job without its text.
void check_types(const Job& job, const Places& places) {
  for (const Key& key : keys()) {
    const std::string& name = key.help.key;
    if (key.type.empty() || !places.given(name)) continue;
    const std::string& type = key.type_key == "model.type" ? job.model.type : job.data.type;
    if (type == key.type || (places.overridden(key.type_key) && !places.overridden(name))) continue;
    refuse(places.of({name.c_str()}),
           fmt::format("{} is given; it belongs to {}: {}, and this job's is {}", name, key.type_key, key.type, type));
  }
}

}  // namespace

void resolve_optimizer_name(Job& job, const Places& places) {
  std::string& name = job.optimizer.name;
  const size_t cut = name.find('_');
  if (cut == std::string::npos) return;
  const StateDtype dtype = name.substr(cut) == "_8bit" ? StateDtype::bits8 : StateDtype::bits4;
  if (places.given("optimizer.state_dtype") && job.optimizer.state_dtype != dtype)
    refuse(places.overridden("optimizer.state_dtype") ? places.of({"optimizer.state_dtype"})
                                                      : places.of({"optimizer.name"}),
           fmt::format("optimizer.name is {}, and optimizer.state_dtype is {}; leave one of them out, or set "
                       "optimizer.state_dtype: {} or optimizer.name: {}",
                       name, name_of(job.optimizer.state_dtype), name_of(dtype), name.substr(0, cut)));
  job.optimizer.state_dtype = dtype;
  name.resize(cut);
}

void check_keys_together(const Job& job, const Places& places) {
  if (job.model.type == "decoder")
    check_heads(job.model.decoder, places);
  else
    check_fmri(job, places);
  check_dtype(job, places);
  check_fine_tuning(job.fine_tuning, places);
  check_data(job, places);
  check_types(job, places);
  check_checkpoint(job, places);
  if (job.model.type == "decoder") check_countable(job, places);  // of other models: check_fmri
}

}  // namespace plimsoll::job
