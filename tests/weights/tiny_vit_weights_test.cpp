// Tests TinyViT's weights from files with its published names: safetensors, and PyTorch's own through the converter.
#include <gmock/gmock.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdlib>

#include "models/tiny_vit.h"
#include "plimsoll/train_job.h"
#include "safetensors/safetensors.h"
#include "test_files.h"
#include "thresholds.h"
#include "train/tiny_job.h"
#include "weights/model_weights.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

ImageEncoderConfig small() {
  ImageEncoderConfig config;
  config.type = "tiny_vit";
  config.widths = {4, 8, 8, 8};
  config.depths = {1, 1, 1, 1};
  config.num_heads = {2, 2, 2};
  config.windows = {2, 2, 2};
  config.expansion = 2;
  return config;
}

/// The file's contents: parameters and statistics.
NamedTensors published(torch::nn::Module& model) {
  NamedTensors all;
  for (const auto& each : model.named_parameters()) all.emplace_back(each.key(), each.value());
  for (const auto& each : model.named_buffers())
    if (each.value().is_floating_point()) all.emplace_back(each.key(), each.value());
  return all;
}

/// A training's part of it: everything, at "encoder.".
NamedTensors state_of(torch::nn::Module& model) {
  NamedTensors all;
  for (const auto& each : model.named_parameters()) all.emplace_back("encoder." + each.key(), each.value());
  for (const auto& each : model.named_buffers()) all.emplace_back("encoder." + each.key(), each.value());
  return all;
}

void shake(torch::nn::Module& model) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : published(model)) tensor.uniform_(0.5, 1.5);
}

class TinyVitWeights : public ::testing::Test {
 protected:
  TinyVitWeights() {
    torch::manual_seed(1);
    shake(expected_);
  }

  /// Writes a published file with `prefix` before every name, and in addition names of SAM's other parts and of
  /// counters.
  std::filesystem::path file(const std::string& prefix, const std::string& left_out = "") {
    std::vector<std::pair<std::string, at::Tensor>> tensors;
    for (const auto& [name, tensor] : published(expected_))
      if (name != left_out) tensors.emplace_back(prefix + name, tensor.detach().contiguous());
    tensors.emplace_back(prefix + "patch_embed.seq.0.bn.num_batches_tracked", torch::tensor({7}, at::kLong));
    tensors.emplace_back(prefix + "norm_head.weight", torch::ones({8}));
    if (!prefix.empty()) tensors.emplace_back("mask_decoder.iou_token.weight", torch::ones({1, 8}));
    std::vector<TensorDeclaration> infos;
    for (const auto& [name, tensor] : tensors)
      infos.push_back(
          {name, tensor.scalar_type() == at::kLong ? DType::int64 : DType::float32, tensor.sizes().vec(), {}});
    const auto path = folder_ / "weights.safetensors";
    SafetensorsWriter writer(path, infos);
    for (const auto& [name, tensor] : tensors)
      writer.write(name, {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
    writer.commit();
    return path;
  }
  void expect_same() {
    const at::NoGradGuard no_grad;
    const at::Tensor image = torch::randn({1, 32, 32, 3});
    const model::ImageFeatures ours = ours_.forward(image), expected = expected_.forward(image);
    EXPECT_TRUE(at::equal(ours.coarse, expected.coarse));
    EXPECT_TRUE(at::equal(ours.fine, expected.fine));
  }

  TempFolder folder_;
  model::TinyVitImpl expected_{small(), 3, 8}, ours_{small(), 3, 8};
};

TEST_F(TinyVitWeights, AreReadByTheirPublishedNames) {
  for (const char* prefix : {"", "image_encoder."}) {
    shake(ours_);
    load_tiny_vit_weights(file(prefix), state_of(ours_), "encoder.");
    expect_same();
  }
}

TEST_F(TinyVitWeights, SayWhatIsMissing) {
  EXPECT_THAT(
      user_error_of(
          [&] { load_tiny_vit_weights(file("image_encoder.", "neck.2.weight"), state_of(ours_), "encoder."); }),
      AllOf(HasSubstr("model.encoder.weights"), HasSubstr("'image_encoder.neck.2.weight' [8, 8, 3, 3] is missing"),
            Not(HasSubstr("mask_decoder"))));
  ImageEncoderConfig wider = small();
  wider.widths[3] = 12;
  model::TinyVitImpl other(wider, 3, 8);
  EXPECT_THAT(user_error_of([&] { load_tiny_vit_weights(file("image_encoder."), state_of(other), "encoder."); }),
              HasSubstr("image_encoder.layers.2.downsample.conv1.c.weight' is float32 [8, 8, 1, 1] in the file"));
  const auto parse = [](const std::string& encoder) {
    return parse_job("{model: {type: prompt_segmentation, encoder: {" + encoder + "}}, data.type: synthetic}",
                     "job.yaml", "");
  };
  EXPECT_EQ(parse("type: tiny_vit, weights: a.safetensors").model.vision_weights, "a.safetensors");
  EXPECT_THAT(user_error_of([&] { parse("weights: a.safetensors"); }), HasSubstr("set model.encoder.type: tiny_vit"));
}

// A .pth as PyTorch itself writes it.
TEST_F(TinyVitWeights, ComeOutOfAPthThroughTheConverter) {
  c10::Dict<std::string, at::Tensor> named;
  for (const auto& [name, tensor] : published(expected_)) named.insert("image_encoder." + name, tensor.detach());
  // One that does not lie in memory as it is read.
  const std::string turned = "image_encoder.layers.1.blocks.0.attn.qkv.weight";
  named.insert_or_assign(turned, named.at(turned).t().contiguous().t());
  named.insert("mask_decoder.other", torch::ones({3}));
  const std::vector<char> bytes = torch::jit::pickle_save(named);
  const auto pth = put_file(folder_ / "weights.pth", {bytes.data(), bytes.size()});
  const auto out = folder_ / "converted.safetensors";
  const std::string script = "python3 " PLIMSOLL_SOURCE_DIR "/scripts/convert-pth.py ";
  ASSERT_EQ(std::system((script + pth.string() + " " + out.string() + " --only image_encoder. > /dev/null").c_str()),
            0);
  load_tiny_vit_weights(out, state_of(ours_), "encoder.");
  expect_same();
  put_file(pth, {bytes.data(), bytes.size() / 2});
  EXPECT_NE(std::system((script + pth.string() + " " + out.string() + " 2> /dev/null").c_str()), 0);
}

TEST(TinyVit, IsAnEncoderThatIsPlannedAndTrained) {
  Job job;
  job.model.type = "prompt_segmentation";
  PromptSegmentationConfig& config = job.model.segmentation;
  config.image_size = 48;  // maps of 6, 3 and 3, windows of 2: some are padded
  config.channels = 3;
  config.prompt_length = 6;
  config.encoder = small();
  config.llm.hidden_size = 16;
  config.llm.num_layers = 1;
  config.llm.num_heads = 2;
  config.decoder = {.width = 16, .depth = 1, .num_heads = 2, .intermediate_size = 8};
  job.data.type = "synthetic";
  job.batch_size = job.micro_batch_size = 2;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 1}};
  job.budget.device = int64_t{1} << 28;
  job.optimizer.learning_rate = 3e-3;
  job.data.samples = 2;
  job.max_steps = 12;
  job.seed = test_seed();
  job.threads = 1;
  for (const auto& freeze : {std::vector<std::string>{}, {"encoder"}}) {
    job.fine_tuning.freeze = freeze;
    const TrainReport report = train(job);
    ASSERT_TRUE(report.fits);
    expect_below(freeze.empty() ? "loss, last of first" : "loss, last of first, frozen encoder",
                 report.losses.back() / report.losses.front(), 1);
    EXPECT_LE(report.measured_peak_bytes, report.planned_peak_bytes);
  }
  job.fine_tuning.freeze = {};
  job.max_steps = 3;
  const TrainReport kept = train(job);
  job.gradient_checkpointing = Choice::on;
  EXPECT_EQ(train(job).losses, kept.losses);
}

}  // namespace
}  // namespace plimsoll
