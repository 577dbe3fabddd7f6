// Tests checkpoints whose optimizer state has other formats than the job's.
#include "checkpoint/checkpoint_state.h"

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "checkpoint/checkpoint.h"
#include "plimsoll/error.h"
#include "test_files.h"
#include "train/update_once.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

OptimizerConfig config_of(StateDtype state, WeightUpdate update, const std::string& name = "adamw") {
  OptimizerConfig config;
  config.name = name;
  config.state_dtype = state;
  config.weight_update = update;
  return config;
}

/// Two parameters, one in another order in memory, with their optimizer, updated a few times.
struct Trained {
  Optimizer optimizer;
  std::vector<OptimizedParameter> parameters;
  NamedTensors state;

  Trained(const OptimizerConfig& config, at::ScalarType type, int steps) : optimizer(config) {
    torch::manual_seed(4);
    const torch::NoGradGuard no_grad;
    parameters.push_back({"w", torch::randn({80, 60}).to(type)});
    parameters.push_back({"conv", torch::randn({20, 30, 3, 3}).to(type).contiguous(at::MemoryFormat::ChannelsLast)});
    for (const auto& p : parameters) state.emplace_back(p.name, p.value);
    for (const NamedState& s : optimizer.make_state(parameters)) state.emplace_back(s.name, s.tensor);
    for (int i = 0; i < steps; ++i) step();
  }
  void step() {
    const torch::NoGradGuard no_grad;
    for (auto& p : parameters) p.gradient = torch::randn(p.value.sizes());
    update_once(optimizer, 1.0, parameters, {torch::scalar_tensor(1e-2, torch::kDouble), torch::scalar_tensor(1.0)});
  }
  at::Tensor operator[](const std::string& name) const {
    for (const auto& [known, tensor] : state)
      if (known == name) return tensor;
    throw std::out_of_range(name);
  }
  /// Returns a mean as float32, from any format.
  at::Tensor mean(const std::string& kind, const std::string& name) const {
    const at::Tensor values = (*this)["optimizer." + kind + "." + name], like = (*this)[name];
    if (values.is_floating_point()) return values.to(at::kFloat);
    return ops::unpacked({values, (*this)["optimizer." + kind + "_scales." + name]}, like, kind == "exp_avg_sq");
  }
};

class CheckpointStateTest : public ::testing::Test {
 protected:
  void load(const Trained& from, const Trained& to) {
    write_checkpoint(file_, {}, from.state);
    read_checkpoint(file_, {}, to.state);
  }
  std::string refusal(const Trained& from, const Trained& to) {
    write_checkpoint(file_, {}, from.state);
    NamedTensors before;
    for (const auto& [name, tensor] : to.state) before.emplace_back(name, tensor.clone());
    const std::string message = user_error_of([&] { read_checkpoint(file_, {}, to.state); });
    for (size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(at::equal(before[i].second, to.state[i].second)) << before[i].first << " was changed";
    return message;
  }

  TempFolder folder_;
  const std::filesystem::path file_ = folder_ / "step-00000001.safetensors";
};

TEST_F(CheckpointStateTest, WiderStateHoldsWhatWasThere) {
  for (const StateDtype from : {StateDtype::bits8, StateDtype::bits4, StateDtype::bfloat16}) {
    for (const StateDtype to : {StateDtype::float32, StateDtype::bfloat16}) {
      const Trained saved(config_of(from, WeightUpdate::stochastic), at::kFloat, 3);
      const Trained loaded(config_of(to, WeightUpdate::stochastic), at::kFloat, 0);
      load(saved, loaded);
      for (const char* name : {"w", "conv"}) {
        EXPECT_TRUE(at::equal(saved[name], loaded[name]));
        for (const char* kind : {"exp_avg", "exp_avg_sq"}) {
          EXPECT_TRUE(at::equal(saved.mean(kind, name), loaded.mean(kind, name))) << kind << " of " << name;
          EXPECT_GT(loaded.mean(kind, name).abs().max().item<double>(), 0);
        }
      }
      EXPECT_EQ(loaded["optimizer.step"].item<float>(), 3);
    }
  }
}

TEST_F(CheckpointStateTest, FewerBitsAreRefused) {
  for (const auto& [from, to] : {std::pair{StateDtype::float32, StateDtype::bits8},
                                 {StateDtype::float32, StateDtype::bfloat16},
                                 {StateDtype::bfloat16, StateDtype::bits4},
                                 {StateDtype::bits8, StateDtype::bits4},
                                 {StateDtype::bits4, StateDtype::bits8}}) {
    const Trained saved(config_of(from, WeightUpdate::stochastic), at::kFloat, 1);
    const Trained loaded(config_of(to, WeightUpdate::stochastic), at::kFloat, 0);
    EXPECT_THAT(refusal(saved, loaded), AllOf(HasSubstr("the optimizer state is "), HasSubstr("in the checkpoint"),
                                              HasSubstr("(4 tensors, first 'optimizer.exp_avg.conv')"),
                                              HasSubstr("set optimizer.state_dtype: ")));
  }
}

TEST_F(CheckpointStateTest, StateOfAnotherOptimizerIsRefused) {
  const Trained saved(config_of(StateDtype::bits8, WeightUpdate::stochastic), at::kFloat, 1);
  const Trained loaded(config_of(StateDtype::float32, WeightUpdate::stochastic, "sgd"), at::kFloat, 0);
  EXPECT_THAT(refusal(saved, loaded), AllOf(HasSubstr("optimizer.momentum.w"), HasSubstr("optimizer.exp_avg.w")));
}

// Returns weights with their companions as the float32 that both represent.
at::Tensor whole(const Trained& trained, const std::string& name) {
  for (const auto& [known, tensor] : trained.state) {
    if (known == "optimizer.master." + name) return tensor;
    if (known == "optimizer.remainder." + name)
      return (at::bitwise_left_shift(trained[name].view(at::kShort).to(at::kInt), 16) + tensor.to(at::kInt))
          .view(at::kFloat);
    if (known == "optimizer.compensation." + name) return trained[name].to(at::kFloat) + tensor.to(at::kFloat);
  }
  return trained[name].to(at::kFloat);
}

TEST_F(CheckpointStateTest, WeightsStandForTheSameNumbers) {
  using W = WeightUpdate;
  for (const auto& [from, to] : {std::pair{W::stochastic, W::split},
                                 {W::stochastic, W::kahan},
                                 {W::nearest, W::master},
                                 {W::stochastic, W::nearest},
                                 {W::master, W::split},
                                 {W::split, W::master},
                                 {W::split, W::split}}) {
    const Trained saved(config_of(StateDtype::bits8, from), at::kBFloat16, 3);
    const Trained loaded(config_of(StateDtype::bits8, to), at::kBFloat16, 2);  // it trained before it reads the file
    load(saved, loaded);
    for (const char* name : {"w", "conv"})
      EXPECT_TRUE(at::equal(whole(saved, name), whole(loaded, name)))
          << name_of(from) << " to " << name_of(to) << ", " << name;
  }
}

// A master that is half way between two bfloat16 numbers, where the roundings differ.
TEST_F(CheckpointStateTest, AMastersTieKeepsItsValue) {
  const Trained saved(config_of(StateDtype::float32, WeightUpdate::master), at::kBFloat16, 0);
  saved["optimizer.master.w"].fill_(1.00390625f);
  saved["w"].fill_(1.0f);
  const Trained loaded(config_of(StateDtype::float32, WeightUpdate::split), at::kBFloat16, 0);
  load(saved, loaded);
  EXPECT_TRUE(at::equal(whole(loaded, "w"), at::full({80, 60}, 1.00390625f)));
}

TEST(WholeWeights, ArePutIntoAParameterAndItsCompanion) {
  torch::manual_seed(4);
  const at::Tensor weights = torch::randn({70, 50});
  for (const auto& [kind, type] : {std::pair{"master", at::kFloat}, {"remainder", at::kShort}}) {
    const at::Tensor parameter = torch::zeros({70, 50}, at::kBFloat16), companion = torch::zeros({70, 50}, type);
    put_whole_weights(weights, kind, parameter, companion);
    EXPECT_TRUE(at::equal(parameter, weights.to(at::kBFloat16))) << kind;  // no value of these is halfway
    EXPECT_TRUE(at::equal(whole_weights(parameter, companion), weights)) << kind;
  }
  // Two bfloat16 numbers hold 16 bits or more.
  const at::Tensor parameter = torch::zeros({70, 50}, at::kBFloat16), companion = torch::zeros_like(parameter);
  put_whole_weights(weights, "compensation", parameter, companion);
  EXPECT_TRUE(at::equal(parameter, weights.to(at::kBFloat16)));
  EXPECT_TRUE(at::allclose(whole_weights(parameter, companion), weights, /*rtol=*/std::ldexp(1.0, -16), /*atol=*/0));
  EXPECT_THROW(put_whole_weights(weights, "half", parameter, companion), InternalError);
}

TEST_F(CheckpointStateTest, BitsOfWeightsAreNotDropped) {
  using W = WeightUpdate;
  for (const auto& [from, to] : {std::pair{W::split, W::stochastic},
                                 {W::master, W::nearest},
                                 {W::master, W::kahan},
                                 {W::kahan, W::stochastic}}) {
    const Trained saved(config_of(StateDtype::float32, from), at::kBFloat16, 2);
    const Trained loaded(config_of(StateDtype::float32, to), at::kBFloat16, 0);
    EXPECT_THAT(refusal(saved, loaded), AllOf(HasSubstr("the weights have more bits in the checkpoint"),
                                              HasSubstr("first 'conv')"), HasSubstr("set optimizer.weight_update")));
  }
}

// A file may have any tensor next to a weight: only a possible companion is read as one.
TEST_F(CheckpointStateTest, CompanionsThatAreNoneAreRefused) {
  using W = WeightUpdate;
  struct Case {
    W from, to;
    const char* name;
    at::Tensor there;
  };
  for (const auto& [from, to, name, there] :
       {Case{W::master, W::split, "optimizer.master.w", torch::zeros({3})},
        {W::master, W::split, "optimizer.master.w", torch::zeros({80, 60}, at::kLong)},
        {W::split, W::master, "optimizer.remainder.w", torch::zeros({60, 80}, at::kShort)},
        {W::split, W::master, "optimizer.remainder.w", torch::zeros({80, 60}, at::kInt)},
        {W::kahan, W::master, "optimizer.compensation.w", torch::zeros({80, 60}, at::kHalf)}}) {
    Trained saved(config_of(StateDtype::float32, from), at::kBFloat16, 1);
    const Trained loaded(config_of(StateDtype::float32, to), at::kBFloat16, 0);
    for (auto& [known, tensor] : saved.state)
      if (known == name) tensor = there;
    EXPECT_THAT(refusal(saved, loaded),
                AllOf(HasSubstr(std::string("'") + name + "'"), HasSubstr("is in the checkpoint only")));
  }
}

}  // namespace
}  // namespace plimsoll
