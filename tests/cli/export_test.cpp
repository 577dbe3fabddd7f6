#include "cli/cli_testing.h"
#include "safetensors/safetensors.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ExportCommand : public CliTest {
 protected:
  ExportCommand() { put_tiny_job(); }

  const std::vector<std::string> adapted_ = {"job.yaml", "lora.modules='*.qkv'", "lora.rank=2",
                                             "quantize.modules='*.mlp'", "checkpoint.directory=run"};
  Arguments with(const std::string& command, const Arguments& more = {}) const {
    Arguments arguments = {command};
    arguments.insert(arguments.end(), adapted_.begin(), adapted_.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
};

TEST_F(ExportCommand, WritesTheNewestCheckpointsWeights) {
  const Outcome trained = run(with("train"));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const Outcome outcome = run(with("export", {"--out", "model.safetensors", "--json", "report.json"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("model.safetensors"), HasSubstr("step 6")));
  const json report = json::parse(get("report.json"));
  EXPECT_EQ(report["step"], 6);
  EXPECT_EQ(report["merged"], 0);
  const auto file = SafetensorsFile::open(folder() / "model.safetensors");
  EXPECT_EQ(file.verify(), file.tensors().size());
  EXPECT_EQ(file.tensors().size(), report["tensors"].get<size_t>());
  EXPECT_TRUE(file.tensors().contains("layers.0.attention.qkv.lora_a"));
  EXPECT_EQ(file.tensors().at("layers.0.attention.qkv.weight").dtype, DType::float32);
  EXPECT_EQ(file.tensors().at("layers.0.mlp.up.weight").dtype, DType::bfloat16);
  EXPECT_FALSE(file.tensors().contains("layers.0.mlp.up.weight_codes"));
  for (const auto& [name, tensor] : file.tensors()) EXPECT_FALSE(name.starts_with("optimizer.")) << name;

  const Outcome merged = run(with("export", {"--out", "merged.safetensors", "--merge", "--dtype", "float16"}));
  ASSERT_EQ(merged.exit_code, 0) << merged.err;
  EXPECT_THAT(merged.out, HasSubstr("2 adapters merged"));
  const auto whole = SafetensorsFile::open(folder() / "merged.safetensors");
  for (const auto& [name, tensor] : whole.tensors()) {
    EXPECT_EQ(name.find("lora"), std::string::npos) << name;
    EXPECT_EQ(tensor.dtype, DType::float16) << name;
  }
}

TEST_F(ExportCommand, NeitherAnotherModelNorOverACheckpoint) {
  ASSERT_EQ(run(with("train", {"checkpoint.every_n_steps=3", "checkpoint.keep=2"})).exit_code, 0);
  for (const std::string format : {"safetensors", "huggingface"})
    EXPECT_TRUE(
        new_files([&] {
          const Outcome other = run(with("export", {"--out", "model", "--format", format, "model.num_heads=4"}));
          EXPECT_EQ(other.exit_code, 2);
          EXPECT_EQ(other.out, "");
          EXPECT_THAT(other.err, HasSubstr("has another model than the job\n"));
          EXPECT_THAT(other.err, HasSubstr("\n  model.num_heads is 4 in the job, 2 in the checkpoint\n"));
        }).empty());
  const std::string early = get("run/step-00000003.safetensors");
  expect_refusal(run(with("export", {"--out", "run/step-00000003.safetensors"})), 2,
                 HasSubstr("the checkpoint of step 3"));
  EXPECT_EQ(get("run/step-00000003.safetensors"), early);
}

// Settings that shapes do not show: a checkpoint has some keys only if they are not the default.
TEST_F(ExportCommand, AKeyThatOneSideAloneSaysIsADifference) {
  ASSERT_EQ(run(with("train", {"model.logit_softcap=20"})).exit_code, 0);
  EXPECT_THAT(run(with("export", {"--out", "m.safetensors"})).err,
              HasSubstr("model.logit_softcap is 20 in the checkpoint, not said in the job"));
  EXPECT_THAT(run(with("train", {"max_steps=8"})).err, HasSubstr("model.logit_softcap is 20 in the checkpoint"));
  EXPECT_EQ(run(with("export", {"--out", "m.safetensors", "model.logit_softcap=20"})).exit_code, 0);
  EXPECT_EQ(run(with("train", {"max_steps=8", "model.logit_softcap=20"})).exit_code, 0);
}

TEST_F(ExportCommand, SaysWhatIsMissing) {
  expect_refusal(run({"export", "job.yaml", "--out", "model.safetensors"}), 2, HasSubstr("no checkpoint.directory"));
  expect_refusal(run(with("export", {"--out", "model.safetensors"})), 2, HasSubstr("there is no checkpoint in"));
  expect_refusal(run(with("export", {"--out", "m.safetensors", "--checkpoint", "none.safetensors"})), 2,
                 HasSubstr("none.safetensors"));
  expect_refusal(run(with("export", {"--out", "m.safetensors", "--dtype", "int8"})), 2,
                 HasSubstr("allowed: float32, bfloat16, float16"));
  // Known from the arguments alone, so before the checkpoint that is missing too.
  expect_refusal(run(with("export", {"--out", "m", "--format", "gguf"})), 2,
                 HasSubstr("allowed: safetensors, huggingface"));
  expect_refusal(run(with("export")), 2, HasSubstr("--out"));
  for (const std::string option : {"--checkpoint", "--dtype", "--format"})
    expect_refusal(run(with("export", {"--out", "m.safetensors", option, ""})), 2, HasSubstr(option));
}

TEST_F(ExportCommand, HelpHasExamples) {
  EXPECT_THAT(run({"export", "--help"}).out, HasSubstr("Examples:\n  plimsoll export"));
}

// If samples are no sequences, the samples are counted.
TEST_F(ExportCommand, SyntheticSamplesOfAnyModelAreTrainedOn) {
  put("fmri.yaml",
      "model: {type: fmri_autoencoder}\ndata: {type: synthetic, samples: 8, validation_fraction: 0.25}\n"
      "batch_size: 2\nmax_steps: 3\nthreads: 1\nmemory_budget: 256MiB\n");
  const Outcome outcome = run({"train", "fmri.yaml", "--json", "-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report["unit"], "samples");
  EXPECT_EQ(report["losses"].size(), 3u);
  EXPECT_TRUE(report["evaluation_loss"].is_number());
  expect_refusal(run({"train", "fmri.yaml", "data.type=text"}), 2, HasSubstr("takes data.type: stimuli | synthetic"));
  expect_refusal(run({"plan", "fmri.yaml", "model.audio.patch=7"}), 2,
                 HasSubstr("model.audio.patch is 7; it must divide model.audio.frames 16"));
  const Outcome decoder = run({"train", "job.yaml", "data.type=synthetic", "max_steps=2"});
  EXPECT_EQ(decoder.exit_code, 0) << decoder.err;
}

}  // namespace
}  // namespace plimsoll::cli_testing
