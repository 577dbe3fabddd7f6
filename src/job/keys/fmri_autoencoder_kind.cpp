// Defines the keys of `model.type: fmri_autoencoder`.
#include <fmt/format.h>

#include <tuple>

#include "job/keys/key_kinds.h"
#include "job/keys/kinds.h"
#include "job/keys/values.h"
#include "models/config_checks.h"

namespace plimsoll {

inline FmriAutoencoderConfig& part(Job& job, FmriAutoencoderConfig*) {
  return job.model.fmri;
}

}  // namespace plimsoll

namespace plimsoll::job {
namespace {

constexpr IntegerRange kCount{1, int64_t{1} << 16};
constexpr IntegerRange kVoxels{1, int64_t{1} << 22};

void add_transformer(std::vector<Key>& keys, const std::string& section, ModalityConfig FmriAutoencoderConfig::*part) {
  using M = ModalityConfig;
  const Place<M> place = [=](Job& job) -> M& { return job.model.fmri.*part; };
  keys.push_back(integer_at(section + ".width", place, &M::width, kWidth,
                            "width of the modality's tokens in encoder and decoder"));
  keys.push_back(integer_at(section + ".depth", place, &M::depth, kDepth, "transformer blocks of its encoder"));
  keys.push_back(
      integer_at(section + ".decoder_depth", place, &M::decoder_depth, kDepth, "transformer blocks of its decoder"));
  keys.push_back(integer_at(section + ".num_heads", place, &M::num_heads, kHeads,
                            "attention heads of its blocks; must divide its width"));
}

Key loss_weight(const std::string& name, double FmriLossConfig::*member, const std::string& meaning) {
  return {{"model.loss." + name, kWeight.text(), fmt::format("{}", FmriLossConfig{}.*member),
           meaning + "; 0: not computed, which saves its activations"},
          [=](const Value& value, Job& job) { job.model.fmri.loss.*member = read_number(value, kWeight); }};
}

std::vector<Key> fmri_keys() {
  using F = FmriAutoencoderConfig;
  using R = ResidualConfig;
  std::vector<Key> keys;
  keys.push_back(integer("model.bottleneck_dim", &F::bottleneck_dim, kWidth,
                         "fmri_autoencoder: width of the code between stimuli and brain"));
  keys.push_back(integer("model.voxels", &F::voxels, kVoxels,
                         "fmri_autoencoder: fMRI values of a sample; 2 x model.fmri.width parameters each"));
  keys.push_back(
      integer("model.video.frames", &F::video_frames, kCount, "frames of a sample; activations grow with them"));
  keys.push_back(integer("model.video.size", &F::video_size, kPixels, "height and width of a frame"));
  keys.push_back(integer("model.video.patch", &F::video_patch, kPixels,
                         "height and width of a patch, which is a token; must divide model.video.size"));
  add_transformer(keys, "model.video", &F::video);
  keys.push_back(integer("model.audio.frames", &F::audio_frames, kCount, "mel frames of a sample"));
  keys.push_back(integer("model.audio.mels", &F::audio_mels, kCount, "mel bands of a frame"));
  keys.push_back(
      integer("model.audio.patch", &F::audio_patch, kCount, "mel frames of a token; must divide model.audio.frames"));
  add_transformer(keys, "model.audio", &F::audio);
  keys.push_back(integer("model.text.tokens", &F::text_tokens, kCount, "text embeddings of a sample"));
  keys.push_back(integer("model.text.features", &F::text_features, kWidth, "width of a text embedding"));
  add_transformer(keys, "model.text", &F::text);
  const Place<R> fusion = [](Job& job) -> R& { return job.model.fmri.fusion; };
  const Place<R> fmri = [](Job& job) -> R& { return job.model.fmri.fmri; };
  keys.push_back(integer_at("model.fusion.width", fusion, &R::width, kWidth,
                            "width of the residual blocks over the summaries of the three modalities"));
  keys.push_back(integer_at("model.fusion.depth", fusion, &R::depth, kDepth, "residual blocks: 8 x width^2 each"));
  keys.push_back(integer_at("model.fmri.width", fmri, &R::width, kWidth, "width of the residual blocks for voxels"));
  keys.push_back(integer_at("model.fmri.depth", fmri, &R::depth, kDepth,
                            "residual blocks of the voxels' encoder: 8 x width^2 each"));
  keys.push_back(integer_at("model.fmri.decoder_depth", fmri, &R::decoder_depth, kDepth,
                            "residual blocks of the voxels' decoder"));
  keys.push_back(loss_weight("fmri", &FmriLossConfig::fmri, "weight of the voxels' reconstruction loss"));
  keys.push_back(loss_weight("video", &FmriLossConfig::video, "weight of the frames' reconstruction loss"));
  keys.push_back(loss_weight("audio", &FmriLossConfig::audio, "weight of the mel frames' reconstruction loss"));
  keys.push_back(loss_weight("text", &FmriLossConfig::text, "weight of the text embeddings' reconstruction loss"));
  keys.push_back(loss_weight("agreement", &FmriLossConfig::agreement, "weight of the distance of the two bottlenecks"));
  keys.push_back(number("model.dropout", &F::dropout, {.min = 0, .max = 1, .max_open = true, .none = true},
                        "dropout rate of the output of every block"));
  keys.push_back(number("model.norm_eps", &F::norm_eps, {.min = 0, .min_open = true, .max = 1, .max_open = true},
                        "value added to the variance in norms"));
  return keys;
}

void check_fmri(const Job& job, const KeyLocations& locations) {
  if (const auto problem = model::problem_of(job.model.fmri)) refuse(locations.of({problem->key}), problem->message);
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
        locations.of({"model.video.frames", "model.video.size", "micro_batch_size", "batch_size"}),
        fmt::format("{} samples at a time of so many frames, bands and tokens need about {:.0e} bytes, more than can "
                    "be counted; make one of them smaller",
                    job.micro_batch_size.value_or(*job.batch_size), bytes));
}

}  // namespace

ModelKind fmri_autoencoder_kind() {
  return {.type = "fmri_autoencoder",
          .meaning = "video, audio and text to fMRI voxels and back",
          .keys = fmri_keys(),
          .check = check_fmri,
          .data_types = {"stimuli"},
          .origin =
              [](const Job& job) {
                const FmriAutoencoderConfig& model = job.model.fmri;
                return std::vector<Setting>{
                    {"model.video.patch", model.video_patch},       {"model.video.num_heads", model.video.num_heads},
                    {"model.audio.patch", model.audio_patch},       {"model.audio.num_heads", model.audio.num_heads},
                    {"model.text.num_heads", model.text.num_heads}, {"model.norm_eps", model.norm_eps},
                    {"model.loss.fmri", model.loss.fmri},           {"model.loss.video", model.loss.video},
                    {"model.loss.audio", model.loss.audio},         {"model.loss.text", model.loss.text},
                    {"model.loss.agreement", model.loss.agreement}};
              },
          .reducible_keys = {
              {"model.bottleneck_dim", "a narrower bottleneck",
               [](const Job& job) { return job.model.fmri.bottleneck_dim; }, 8},
              {"model.video.frames", "fewer frames", [](const Job& job) { return job.model.fmri.video_frames; }, 1, 1},
              {"model.video.size", "smaller frames", [](const Job& job) { return job.model.fmri.video_size; }, 16, 2},
              {"model.audio.frames", "shorter audio", [](const Job& job) { return job.model.fmri.audio_frames; }, 4, 1},
              {"model.fmri.width", "narrower blocks on the voxels' side",
               [](const Job& job) { return job.model.fmri.fmri.width; }, 64},
              {"model.video.depth", "fewer blocks for the video",
               [](const Job& job) { return job.model.fmri.video.depth; }},
          }};
}

}  // namespace plimsoll::job
