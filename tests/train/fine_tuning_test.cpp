// Tests frozen, adapted and quantized training: its saved values, its memory, and that it equals eager libtorch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <span>

#include "base/hash.h"
#include "base/process.h"
#include "checkpoint/checkpoint.h"
#include "ops/libtorch_types.h"
#include "plimsoll/bytes.h"
#include "plimsoll/export.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"
#include "refusals.h"
#include "run/equality.h"
#include "safetensors/safetensors.h"
#include "thresholds.h"
#include "train/tiny_job.h"
#include "weights/checkpoint_weights.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kTime = 24, kVocab = 64;

DecoderConfig small_decoder() {
  DecoderConfig config;
  config.vocab_size = kVocab;
  config.hidden_size = 32;
  config.num_layers = 3;
  config.num_heads = 2;
  return config;
}

Step small_step() {
  return decoder_step(small_decoder(), 2, kTime);
}

TrainingOptions options_with(FineTuning how, Precision precision = Precision::fp32_true) {
  TrainingOptions options;
  options.precision = precision;
  options.fine_tuning = std::move(how);
  options.threads = 1;
  return options;
}

std::vector<std::string> state_names(const Trace& trace, std::string_view prefix) {
  std::vector<std::string> names;
  for (const NamedView& entry : trace.state)
    if (entry.name.starts_with(prefix)) names.push_back(entry.name);
  return names;
}

int64_t bytes_of_role(const Trace& trace, Role role) {
  int64_t bytes = 0;
  for (const Buffer& buffer : trace.buffers) bytes += buffer.role == role ? buffer.bytes : 0;
  return bytes;
}

const FineTuning kLora = {.lora = {.modules = {"*.qkv", "*.mlp"}, .rank = 4, .alpha = 8, .dropout = 0}};
const FineTuning kQlora = {.lora = {.modules = {"*.qkv", "*.mlp"}, .rank = 4, .alpha = 8, .dropout = 0},
                           .quantize = {.modules = {"layers"}, .format = "nf4", .double_scales = true}};

TEST(FineTuning, FrozenPartsHaveNoGradientNoStateAndNothingSavedForThem) {
  const Trace whole = record_step(small_step(), options_with({}));
  const Trace part = record_step(small_step(), options_with({.freeze = {"layers.*.mlp"}}));
  EXPECT_THAT(state_names(part, "optimizer."), Not(Contains(HasSubstr(".mlp."))));
  for (const Buffer& buffer : part.buffers)
    EXPECT_FALSE(buffer.role == Role::gradient && buffer.label.find(".mlp.") != std::string::npos);
  EXPECT_THAT(state_names(part, "layers.0.mlp."), ::testing::SizeIs(2)) << "still in checkpoints";
  // The feed-forward's products are not needed for its own weights any more: the input of `up`, which is the norm's
  // output, and the input of `down`, the widest of the block.
  const Plan before = make_plan(whole), after = make_plan(part);
  EXPECT_LT(after.breakdown.activations, before.breakdown.activations - 3 * 2 * kTime * 32 * 4);
  EXPECT_LT(after.persistent_bytes, before.persistent_bytes);
}

TEST(FineTuning, NothingIsSavedBelowTheFirstLayerThatLearns) {
  const Trace part = record_step(small_step(), options_with({.freeze = {"embedding", "layers.0", "layers.1"}}));
  const Trace whole = record_step(small_step(), options_with({}));
  EXPECT_LT(2 * bytes_of_role(part, Role::activation), bytes_of_role(whole, Role::activation));
}

class FineTuningEquality : public ::testing::TestWithParam<std::tuple<int, Precision>> {
 protected:
  static FineTuning how(int index) {
    const FineTuning all[] = {{.freeze = {"layers.[01]", "embedding"}},
                              kLora,
                              kQlora,
                              {.freeze = {"layers.1"}, .quantize = {.modules = {"layers.2"}, .format = "int8"}}};
    return all[index];
  }
};

TEST_P(FineTuningEquality, EveryBitIsAsEagerHasIt) {
  torch::manual_seed(3);
  TrainingOptions options = options_with(how(std::get<0>(GetParam())), std::get<1>(GetParam()));
  options.accumulate = true;
  testing::expect_equal(
      small_step(), options, [] { return testing::token_batch(2, kTime, kVocab); }, 2, 2);
}

std::string name_of_way(const ::testing::TestParamInfo<std::tuple<int, Precision>>& info) {
  constexpr const char* ways[] = {"frozen", "lora", "qlora", "int8"};
  std::string name = std::string(ways[std::get<0>(info.param)]) + "_" + std::string(name_of(std::get<1>(info.param)));
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ways, FineTuningEquality,
                         ::testing::Combine(::testing::Range(0, 4),
                                            ::testing::Values(Precision::fp32_true, Precision::bf16_mixed,
                                                              Precision::bf16_true, Precision::fp16_mixed)),
                         name_of_way);

TEST(FineTuning, OnlyAdaptersHaveState) {
  const Trace trace = record_step(small_step(), options_with(kLora));
  std::vector<std::string> state = state_names(trace, "optimizer.exp_avg.");
  EXPECT_EQ(state.size(), 3 * 3 * 2u);
  EXPECT_THAT(state, Each(HasSubstr(".lora_")));
}

TEST(FineTuning, AnAdaptedModelBeginsWithTheLossOfItsBase) {
  const auto first_loss = [](FineTuning how) {
    torch::manual_seed(5);
    Training training(small_step(), options_with(std::move(how)));
    training.start();
    return training.step({testing::token_batch(2, kTime, kVocab)}, 1e-3).loss;
  };
  // The adapters draw their numbers behind all others: the base is the same.
  EXPECT_EQ(first_loss(kLora), first_loss({}));
}

TEST(FineTuning, MixedPrecisionHoldsFrozenLinearWeightsAsTheyAreMultiplied) {
  TrainingOptions options = options_with(kLora, Precision::bf16_mixed);
  const Trace lean = record_step(small_step(), options);
  options.dtype = DType::float32;  // set by the user
  const Trace wide = record_step(small_step(), options);
  const auto dtype = [](const Trace& trace) { return Trace::find(trace.state, "layers.0.mlp.up.weight")->view.dtype; };
  EXPECT_EQ(dtype(lean), DType::bfloat16);
  EXPECT_EQ(dtype(wide), DType::float32);
  // Neither are they cast again in a micro batch, nor is a copy kept for the backward pass.
  const auto casts = [](const Trace& trace) {
    const BufferId weight = Trace::find(trace.state, "layers.0.mlp.up.weight")->view.buffer;
    int count = 0;
    const Segment& micro = *trace.segment(SegmentKind::micro);
    for (int32_t i = micro.begin; i < micro.end; ++i)
      if (trace.ops[i].name == "aten::copy_")
        for_each_view(trace.ops[i],
                      [&](const View& view, bool written) { count += !written && view.buffer == weight; });
    return count;
  };
  EXPECT_EQ(casts(lean), 0);
  EXPECT_EQ(casts(wide), 1);
  EXPECT_LT(make_plan(lean).breakdown.activations, make_plan(wide).breakdown.activations);

  const auto losses = [](const TrainingOptions& with) {
    torch::manual_seed(6);
    Training training(small_step(), with);
    training.start();
    std::vector<double> losses;
    for (int i = 0; i < 4; ++i) losses.push_back(training.step({testing::token_batch(2, kTime, kVocab)}, 1e-2).loss);
    return losses;
  };
  TrainingOptions automatic = options;
  automatic.dtype.reset();
  EXPECT_EQ(losses(options), losses(automatic));
}

/// Linear layers of libtorch's own, behind one weight that learns.
struct OtherLayers : torch::nn::Module {
  static constexpr int64_t kWidth = 256, kLayers = 8;
  OtherLayers() {
    first = register_parameter("first", torch::ones({kWidth}));
    layers = register_module("layers", torch::nn::ModuleList());
    for (int i = 0; i < kLayers; ++i) layers->push_back(torch::nn::Linear(kWidth, kWidth));
  }
  torch::Tensor loss(torch::Tensor x) {
    x = x * first;
    for (const auto& layer : *layers) x = torch::gelu(layer->as<torch::nn::Linear>()->forward(x));
    return x.to(torch::kFloat).square().mean();
  }
  torch::Tensor first;
  torch::nn::ModuleList layers{nullptr};
};

TEST(FineTuning, CopiesOfOtherFrozenWeightsAreMadeAgainWhereTheBudgetAsksForIt) {
  Step step;
  step.model = [] { return std::make_shared<OtherLayers>(); };
  step.inputs = {{"x", {4, OtherLayers::kWidth}, torch::kFloat}};
  step.loss = [](torch::nn::Module& model, const StepInputs& in) {
    return static_cast<OtherLayers&>(model).loss(in["x"]);
  };
  const Planner planner(record_step(step, options_with({.freeze = {"layers"}}, Precision::bf16_mixed)), {});
  const Plan roomy = planner.plan();
  constexpr int64_t copies = OtherLayers::kLayers * OtherLayers::kWidth * OtherLayers::kWidth * 2;
  EXPECT_GT(roomy.breakdown.activations, copies * 3 / 4);
  EXPECT_LT(planner.minimum_budget(), roomy.peak_bytes - copies / 2);
}

// A wide model: its float32 weights would be the peak if they were all there before the first is quantized.
TEST(FineTuning, QuantizingNeverHasTheWholeModelInFloat32) {
  DecoderConfig config = small_decoder();
  config.hidden_size = 256;
  config.num_layers = 8;
  const Step step = decoder_step(config, 1, 8);
  FineTuning how = kQlora;
  how.quantize.modules = {"layers"};
  const Trace trace = record_step(step, options_with(how));
  int64_t numbers = 0;
  for (const NamedView& entry : trace.state)
    if (entry.name.ends_with("weight_codes")) numbers += 2 * entry.view.elements();
  ASSERT_GT(numbers, 5'000'000);
  const Plan plan = make_plan(trace);
  EXPECT_LT(plan.peak_bytes, numbers * 4 / 3);
  int64_t codes = 0, scales = 0;
  for (const NamedView& entry : trace.state) {
    if (entry.name.ends_with("weight_codes")) codes += entry.view.elements();
    if (entry.name.ends_with("scales")) scales += entry.view.elements() * element_bytes(entry.view.dtype);
  }
  EXPECT_EQ(2 * codes, numbers);
  EXPECT_LT(static_cast<double>(codes + scales) * 8 / static_cast<double>(numbers), 4.14);
}

TEST(FineTuning, TypesOfWeightsAreAsAsked) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    TrainingOptions options = options_with(kLora);
    options.dtype = dtype;
    const Trace trace = record_step(small_step(), options);
    EXPECT_EQ(Trace::find(trace.state, "layers.0.mlp.up.weight")->view.dtype, dtype);
    EXPECT_EQ(Trace::find(trace.state, "embedding")->view.dtype, dtype);
    EXPECT_EQ(Trace::find(trace.state, "layers.0.mlp.up.lora_a")->view.dtype, DType::float32);
  }
  torch::manual_seed(8);
  TrainingOptions options = options_with(kLora);
  options.dtype = DType::bfloat16;
  testing::expect_equal(
      small_step(), options, [] { return testing::token_batch(2, kTime, kVocab); }, 2, 1);
}

class FineTuningJob : public ::testing::Test {
 protected:
  Job job(FineTuning how) const {
    Job job = tiny_job(folder_, /*windows=*/8, /*validation=*/2);
    job.fine_tuning = std::move(how);
    job.optimizer.learning_rate = 2e-2;
    job.checkpoint.directory = folder_ / "run";
    job.max_steps = 12;
    return job;
  }
  TempFolder folder_;
};

TEST_F(FineTuningJob, AdaptersOverQuantizedWeightsLearnAndResume) {
  Job straight = job(kQlora);
  straight.checkpoint.directory = folder_ / "straight";
  const TrainReport whole = train(straight);
  expect_above("fall of the loss", whole.losses.front() - whole.losses.back(), 0.1);
  const TrainReport first = train_until(job(kQlora), 5), second = train(job(kQlora));
  EXPECT_EQ(second.resumed_step, 5);
  std::vector<double> losses = first.losses;
  losses.insert(losses.end(), second.losses.begin(), second.losses.end());
  EXPECT_EQ(losses, whole.losses);
}

TEST_F(FineTuningJob, OtherAdaptersAreAnotherJob) {
  train_until(job(kLora), 2);
  Job other = job(kLora);
  other.fine_tuning.lora.alpha = 16;
  try {
    train(other);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("lora.alpha is 16 in the job, 8 in the checkpoint"));
  }
}

TEST_F(FineTuningJob, AnExportThatExceedsTheProcessBudgetIsRefusedBeforeItWrites) {
  Job adapted = job(kQlora);
  train(adapted);
  const auto newest = checkpoints_in(adapted.checkpoint.directory).rbegin()->second;
  const auto out = folder_ / "bounded";
  const ScopedFakeResidentMemory memory([] { return ResidentMemory{.now = GiB, .peak = GiB}; });
  for (const ExportFormat format : {ExportFormat::safetensors, ExportFormat::huggingface}) {
    adapted.budget.process = GiB;
    const auto run = [&] { export_job(adapted, newest, out, format, {.merge = true}); };
    try {
      run();
      ADD_FAILURE();
    } catch (const UserError& error) {
      EXPECT_EQ(error.kind(), UserError::Kind::does_not_fit);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("the export of the weight"), HasSubstr("the minimum is")));
    }
    EXPECT_FALSE(std::filesystem::exists(out));
    *adapted.budget.process += 64 * MiB;
    run();
    EXPECT_TRUE(std::filesystem::exists(out));
    std::filesystem::remove_all(out);
  }
}

TEST_F(FineTuningJob, TheMergedModelHasTheLossOfTheAdaptedOne) {
  for (const FineTuning& how : {kLora, kQlora}) {
    Job adapted = job(how);
    adapted.checkpoint.directory = folder_ / (how.quantize.modules.empty() ? "lora" : "qlora");
    const TrainReport report = train(adapted);
    const auto newest = checkpoints_in(adapted.checkpoint.directory).rbegin()->second;
    const auto out = folder_ / "merged.safetensors";
    const ExportReport exported = export_weights(newest, out, {.merge = true, .dtype = DType::float32});
    EXPECT_EQ(exported.step, 12);
    EXPECT_EQ(exported.merged, 2 * 3);

    Job plain = job({});
    plain.checkpoint.directory.clear();
    plain.model.weights = out;
    plain.optimizer.learning_rate = 1e-12;  // evaluates what it was given
    plain.max_steps = 1;
    const TrainReport merged = train(plain);
    ASSERT_TRUE(report.last_evaluation && merged.last_evaluation);
    EXPECT_NEAR(*merged.last_evaluation, *report.last_evaluation, 1e-5 * *report.last_evaluation);

    // Without its adapters it is another model.
    const auto base = folder_ / "base.safetensors";
    export_weights(newest, base, {.merge = false, .dtype = DType::float32});
    Job with_adapters = job(kLora);
    with_adapters.checkpoint.directory.clear();
    with_adapters.model.weights = base;
    with_adapters.optimizer.learning_rate = 1e-12;
    with_adapters.max_steps = 1;
    EXPECT_NEAR(*train(with_adapters).last_evaluation, *report.last_evaluation, 1e-5 * *report.last_evaluation);
    expect_above(how.quantize.modules.empty() ? "change of the loss, LoRA" : "change of the loss, QLoRA",
                 std::abs(report.losses.front() - *report.last_evaluation), 0.05);
  }
}

TEST_F(FineTuningJob, WeightsAreQuantizedAndCastOnTheWayIn) {
  Job base = job({});
  base.checkpoint.directory = folder_ / "base";
  const TrainReport trained = train(base);
  const auto out = folder_ / "base.safetensors";
  export_weights(checkpoints_in(base.checkpoint.directory).rbegin()->second, out, {});
  Job tuned = job(kQlora);
  tuned.checkpoint.directory.clear();
  tuned.fine_tuning.quantize.format = "int8";
  tuned.model.weights = out;
  tuned.optimizer.learning_rate = 1e-12;
  tuned.max_steps = 1;
  expect_below("difference of evaluations", std::abs(*train(tuned).last_evaluation - *trained.last_evaluation), 0.02);
}

std::map<std::string, at::Tensor> tensors_in(const std::filesystem::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, stored] : file.tensors()) {
    tensors[name] = at::empty(stored.sizes, scalar_type_of(stored.dtype));
    std::memcpy(tensors[name].mutable_data_ptr(), stored.bytes.data(), stored.bytes.size());
  }
  return tensors;
}

void write_tensors(const std::filesystem::path& path, const std::map<std::string, at::Tensor>& tensors) {
  const auto bytes = [](const at::Tensor& tensor) {
    return std::span(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes());
  };
  std::vector<TensorDeclaration> declarations;
  for (const auto& [name, tensor] : tensors)
    declarations.push_back({name, dtype_of(tensor.scalar_type()), tensor.sizes().vec(), content_hash(bytes(tensor))});
  SafetensorsWriter writer(path, declarations, {});
  for (const auto& [name, tensor] : tensors) writer.write(name, bytes(tensor));
  writer.commit();
}

// The companion of a 16-bit weight is the start of the next update: it comes from the file as well.
TEST_F(FineTuningJob, LoadedWeightsOutliveTheFirstUpdates) {
  Job base = job({});
  base.checkpoint.directory = folder_ / "base";
  const TrainReport trained = train(base);
  expect_above("fall of the loss", trained.losses.front() - *trained.last_evaluation, 0.1);
  const auto out = folder_ / "base.safetensors";
  export_weights(checkpoints_in(base.checkpoint.directory).rbegin()->second, out, {});
  const auto loaded = tensors_in(out);
  for (const WeightUpdate update : {WeightUpdate::nearest, WeightUpdate::stochastic, WeightUpdate::kahan,
                                    WeightUpdate::split, WeightUpdate::master}) {
    Job tuned = job({});
    tuned.checkpoint.directory = folder_ / name_of(update);
    tuned.precision = Precision::bf16_true;
    tuned.optimizer.weight_update = update;
    tuned.optimizer.learning_rate = 1e-12;
    tuned.optimizer.weight_decay = 0;
    tuned.model.weights = out;
    tuned.max_steps = 2;
    expect_below(fmt::format("difference of evaluations, {}", name_of(update)),
                 std::abs(*train(tuned).last_evaluation - *trained.last_evaluation), 0.05);

    // A checkpoint restores the float32 that it was given, up to the bits it has.
    const auto again = folder_ / "again.safetensors";
    export_weights(checkpoints_in(tuned.checkpoint.directory).rbegin()->second, again, {.dtype = DType::float32});
    const double bits = update == WeightUpdate::split || update == WeightUpdate::master ? 1e-6
                        : update == WeightUpdate::kahan                                 ? 1e-4
                                                                                        : 1e-2;
    const auto exported = tensors_in(again);
    EXPECT_EQ(exported.size(), loaded.size());
    for (const auto& [name, tensor] : exported)
      EXPECT_TRUE(at::allclose(tensor, loaded.at(name), bits, 1e-9)) << name << ", " << name_of(update);
  }
}

TEST_F(FineTuningJob, MergedWeightsHaveTheBitsOfTheirMasters) {
  Job adapted = job(kLora);
  adapted.precision = Precision::bf16_true;
  adapted.optimizer.weight_update = WeightUpdate::master;
  train(adapted);
  const auto checkpoint = checkpoints_in(adapted.checkpoint.directory).rbegin()->second;
  const auto out = folder_ / "merged.safetensors";
  export_weights(checkpoint, out, {.merge = true, .dtype = DType::float32});
  const auto state = tensors_in(checkpoint), merged = tensors_in(out);
  const std::string owner = "layers.0.mlp.up.";
  const auto master = [&](const std::string& name) { return state.at("optimizer.master." + owner + name); };
  const at::Tensor whole = state.at(owner + "weight").to(at::kFloat) + at::mm(master("lora_b"), master("lora_a")) * 2;
  EXPECT_TRUE(at::allclose(merged.at(owner + "weight"), whole, 1e-6, 1e-9));
}

TEST_F(FineTuningJob, HalfAnAdapterIsRefused) {
  train_until(job(kLora), 1);
  const auto out = folder_ / "out.safetensors";
  export_weights(checkpoints_in(folder_ / "run").rbegin()->second, out, {});
  auto tensors = tensors_in(out);
  Job other = job(kLora);
  other.checkpoint.directory.clear();
  other.model.weights = out;
  EXPECT_NO_THROW(train_until(other, 1));
  tensors.erase("layers.0.mlp.up.lora_b");
  write_tensors(out, tensors);
  EXPECT_THAT(user_error_of([&] { train_until(other, 1); }),
              AllOf(HasSubstr("nothing was loaded"), HasSubstr("'layers.0.mlp.up.lora_a' is half an adapter"),
                    HasSubstr("'layers.0.mlp.up.lora_b'")));
}

TEST_F(FineTuningJob, BuffersThatCountAreTakenAsTheyAre) {
  const auto out = folder_ / "out.safetensors";
  write_tensors(out, {{"batches", torch::full({}, 7, at::kLong)}, {"weight", torch::ones({2})}});
  const at::Tensor batches = torch::zeros({}, at::kLong), weight = torch::zeros({2}, at::kBFloat16);
  load_weights(out, {{"batches", batches}, {"weight", weight}});
  EXPECT_EQ(batches.item<int64_t>(), 7);
  EXPECT_EQ(weight[1].item<float>(), 1);
  EXPECT_THAT(user_error_of([&] {
                load_weights(out, {{"batches", torch::zeros({})}, {"weight", weight}});
              }),
              HasSubstr("'batches' is int64 [] in the file, float32 [] in the model"));
}

TEST_F(FineTuningJob, RefusesFilesOfOtherModelsAndDamagedOnes) {
  train_until(job(kLora), 1);
  const auto checkpoint = checkpoints_in(folder_ / "run").rbegin()->second;
  const auto out = folder_ / "out.safetensors";
  export_weights(checkpoint, out, {});
  EXPECT_THAT(refusal_of([&] { export_weights(out, folder_ / "again", {}); }), HasSubstr("is not a checkpoint"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "again"));
  Job other = job({});
  other.checkpoint.directory.clear();
  other.model.weights = out;
  EXPECT_THAT(refusal_of([&] { train(other); }),
              AllOf(HasSubstr("nothing was loaded"), HasSubstr("'layers.0.attention.qkv.lora_a' is in the file only")));
  other = job(kLora);
  other.checkpoint.directory.clear();
  other.model.weights = out;
  other.model.decoder.num_layers = 3;
  EXPECT_THAT(refusal_of([&] { train(other); }), HasSubstr("'layers.2.attention.qkv.weight' [96, 32] is missing"));
  Job plain = job({});
  plain.checkpoint.directory = folder_ / "plain";
  train_until(plain, 1);
  EXPECT_THAT(
      refusal_of([&] { export_weights(checkpoints_in(folder_ / "plain").rbegin()->second, out, {.merge = true}); }),
      HasSubstr("has no adapters to merge"));
  std::filesystem::resize_file(checkpoint, std::filesystem::file_size(checkpoint) - 8);
  EXPECT_NE(refusal_of([&] { export_weights(checkpoint, out, {}); }), "accepted");
}

TEST_F(FineTuningJob, TheJobFileSaysItAll) {
  std::ofstream(folder_ / "w.safetensors") << "the job file is read without it";
  const Job read = parse_job(
      "data: {files: a.txt}\nfreeze: [embedding, 'layers.0']\ntrain: norm\n"
      "lora: {modules: ['*.qkv', '*.out'], rank: 4, alpha: 32, dropout: 0.1}\n"
      "quantize: {modules: layers, format: int8, double_scales: true}\nmodel: {dtype: bfloat16, weights: "
      "w.safetensors}\n",
      "job.yaml", folder_.path());
  EXPECT_THAT(read.fine_tuning.freeze, ::testing::ElementsAre("embedding", "layers.0"));
  EXPECT_THAT(read.fine_tuning.train, ::testing::ElementsAre("norm"));
  EXPECT_THAT(read.fine_tuning.lora.modules, ::testing::ElementsAre("*.qkv", "*.out"));
  EXPECT_EQ(read.fine_tuning.lora.rank, 4);
  EXPECT_EQ(read.fine_tuning.lora.alpha, 32);
  EXPECT_EQ(read.fine_tuning.quantize.format, "int8");
  EXPECT_TRUE(read.fine_tuning.quantize.double_scales);
  EXPECT_EQ(read.dtype, DType::bfloat16);
  EXPECT_EQ(read.model.weights, folder_ / "w.safetensors");
  const TrainingOptions options = options_of(read);
  EXPECT_EQ(options.fine_tuning.lora.dropout, 0.1);
  EXPECT_EQ(options.dtype, DType::bfloat16);
}

TEST_F(FineTuningJob, SettingsThatDoNotGoTogetherAreRefused) {
  const auto refusal = [](const std::string& yaml) {
    return refusal_of([&] { parse_job("data: {files: a.txt}\n" + yaml, "job.yaml", ""); });
  };
  EXPECT_THAT(refusal("model: {dtype: float16}"),
              AllOf(StartsWith("job.yaml:2"), HasSubstr("set precision: 16-mixed")));
  EXPECT_EQ(refusal("model: {dtype: float16}\nprecision: 16-mixed"), "accepted");
  EXPECT_THAT(refusal("model: {dtype: float32}\nprecision: bf16-true"), HasSubstr("weights are bfloat16"));
  EXPECT_THAT(refusal("model: {dtype: bfloat16}\nprecision: auto"), HasSubstr("set precision: bf16-true"));
  EXPECT_THAT(refusal("model: {dtype: int8}"), HasSubstr("allowed: auto, float32, bfloat16, float16"));
  EXPECT_THAT(refusal("lora: {rank: 4}"), HasSubstr("lora.rank is given, but lora.modules names no layers"));
  EXPECT_THAT(refusal("lora: {modules: x, rank: 0}"), HasSubstr("lora.rank is 0"));
  EXPECT_THAT(refusal("lora: {modules: x, alpha: 0}"), HasSubstr("lora.alpha is 0"));
  EXPECT_THAT(refusal("quantize: {format: int8}"), HasSubstr("quantize.modules names no layers"));
  EXPECT_THAT(refusal("quantize: {modules: x, format: int4}"), HasSubstr("allowed: nf4, int8"));
  EXPECT_THAT(refusal("freeze: *.qkv"), HasSubstr("a pattern that begins with * stands in quotes"));
  EXPECT_THAT(refusal("freeze: {a: b}"), HasSubstr("allowed: a pattern of dotted names"));
  EXPECT_THAT(refusal("freeze: ['']"), HasSubstr("allowed: a pattern of dotted names"));
  EXPECT_THAT(refusal("freeze: " + std::string(257, 'a')), HasSubstr("a pattern of 257 letters"));
}

}  // namespace
}  // namespace plimsoll
