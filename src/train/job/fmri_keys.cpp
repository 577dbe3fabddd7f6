// Keys of `model.type: fmri_autoencoder`.
#include "train/job/key_groups.h"
#include "train/job/key_kinds.h"

namespace plimsoll::job {
namespace {

constexpr IntegerRange kWidth{1, int64_t{1} << 16};
constexpr IntegerRange kDepth{0, 1024};
constexpr IntegerRange kHeads{1, kMostHeads};
constexpr IntegerRange kCount{1, int64_t{1} << 16};
constexpr IntegerRange kPixels{1, int64_t{1} << 12};
constexpr IntegerRange kVoxels{1, int64_t{1} << 22};
constexpr NumberRange kWeight{.least = 0};

/// A whole number of a part within the configuration; `place` gives the part.
template <typename Part>
Key integer_within(std::string key, std::function<Part&(Job&)> place, int64_t Part::*member, IntegerRange range,
                   std::string meaning) {
  Job defaults;
  return {{std::move(key), range.text(), std::to_string(place(defaults).*member), std::move(meaning)},
          [=](const Value& value, Job& job) { place(job).*member = read_integer(value, range); }};
}

void add_transformer(std::vector<Key>& keys, const std::string& section, ModalityConfig FmriAutoencoderConfig::*part) {
  using M = ModalityConfig;
  const std::function<M&(Job&)> place = [=](Job& job) -> M& { return job.model.fmri.*part; };
  keys.push_back(integer_within(section + ".width", place, &M::width, kWidth, "of its tokens, in encoder and decoder"));
  keys.push_back(integer_within(section + ".depth", place, &M::depth, kDepth, "transformer blocks of its encoder"));
  keys.push_back(integer_within(section + ".decoder_depth", place, &M::decoder_depth, kDepth,
                                "transformer blocks of its decoder"));
  keys.push_back(integer_within(section + ".num_heads", place, &M::num_heads, kHeads,
                                "attention heads of its blocks; must divide its width"));
}

Key loss_weight(const std::string& name, double FmriLossConfig::*member, const std::string& meaning) {
  return {{"model.loss." + name, kWeight.text(), fmt::format("{}", FmriLossConfig{}.*member),
           meaning + "; 0 leaves it out, with the activations that only it needs"},
          [=](const Value& value, Job& job) { job.model.fmri.loss.*member = read_number(value, kWeight); }};
}

}  // namespace

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
  const std::function<R&(Job&)> fusion = [](Job& job) -> R& { return job.model.fmri.fusion; };
  const std::function<R&(Job&)> fmri = [](Job& job) -> R& { return job.model.fmri.fmri; };
  keys.push_back(integer_within("model.fusion.width", fusion, &R::width, kWidth,
                                "of the residual blocks over the three modalities' summaries"));
  keys.push_back(integer_within("model.fusion.depth", fusion, &R::depth, kDepth, "residual blocks: 8 x width^2 each"));
  keys.push_back(
      integer_within("model.fmri.width", fmri, &R::width, kWidth, "of the residual blocks on the voxels' side"));
  keys.push_back(integer_within("model.fmri.depth", fmri, &R::depth, kDepth,
                                "residual blocks of the voxels' encoder: 8 x width^2 each"));
  keys.push_back(integer_within("model.fmri.decoder_depth", fmri, &R::decoder_depth, kDepth,
                                "residual blocks of the voxels' decoder"));
  keys.push_back(loss_weight("fmri", &FmriLossConfig::fmri, "what the voxels' reconstruction counts for"));
  keys.push_back(loss_weight("video", &FmriLossConfig::video, "what the frames' reconstruction counts for"));
  keys.push_back(loss_weight("audio", &FmriLossConfig::audio, "what the mel frames' reconstruction counts for"));
  keys.push_back(loss_weight("text", &FmriLossConfig::text, "what the text embeddings' reconstruction counts for"));
  keys.push_back(
      loss_weight("agreement", &FmriLossConfig::agreement, "what the distance of the two bottlenecks counts for"));
  return keys;
}

}  // namespace plimsoll::job
