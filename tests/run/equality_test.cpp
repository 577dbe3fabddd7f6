// Tests that replay equals eager libtorch autograd, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <random>

#include "ops/matmul_throughput.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"
#include "rounds.h"
#include "run/equality.h"
#include "run/training_runs.h"

namespace plimsoll {
namespace {

using testing::expect_equal;
using testing::token_batch;

DecoderConfig small_decoder() {
  DecoderConfig config;
  config.vocab_size = 131;
  config.hidden_size = 32;
  config.num_layers = 2;
  config.num_heads = 4;
  return config;
}

TEST(Equality, SmallDecoderFp32) {
  torch::manual_seed(1);
  expect_equal(
      decoder_step(small_decoder(), 2, 24), {}, [] { return token_batch(2, 24, 131); }, 3, 1);
}

struct EqualityCase {
  Precision precision;
  Choice checkpointing;
  int micro;
};

class AllModes : public ::testing::TestWithParam<EqualityCase> {};

TEST_P(AllModes, SmallDecoder) {
  torch::manual_seed(2);
  TrainingOptions options;
  options.precision = GetParam().precision;
  options.gradient_checkpointing = GetParam().checkpointing;
  options.accumulate = GetParam().micro > 1;
  DecoderConfig config = small_decoder();
  config.num_kv_heads = 2;
  expect_equal(
      decoder_step(config, 2, 24), options, [] { return token_batch(2, 24, 131); }, 3, GetParam().micro);
}

// Both use the same kernels for matmuls of 16 bits, whichever these are.
TEST_P(AllModes, SmallDecoderWithProductsInFloat32Blocks) {
  const ops::ProductsScope blocks(true);
  torch::manual_seed(2);
  TrainingOptions options;
  options.precision = GetParam().precision;
  options.gradient_checkpointing = GetParam().checkpointing;
  options.accumulate = GetParam().micro > 1;
  expect_equal(
      decoder_step(small_decoder(), 2, 24), options, [] { return token_batch(2, 24, 131); }, 2, GetParam().micro);
}

std::vector<EqualityCase> equality_cases() {
  std::vector<EqualityCase> cases;
  for (auto precision : {Precision::fp32_true, Precision::bf16_mixed, Precision::fp16_mixed, Precision::bf16_true})
    for (auto checkpointing : {Choice::off, Choice::on})
      for (int micro : {1, 4}) cases.push_back({precision, checkpointing, micro});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(PrecisionCheckpointingAccumulation, AllModes, ::testing::ValuesIn(equality_cases()));

// Random small models: every choice of the decoder family drawn at random.
void expect_random_decoders_equal(int count, int seed, std::vector<Precision> precisions) {
  std::mt19937 random(seed);
  const auto draw = [&](auto... options) {
    const auto list = {options...};
    return *(list.begin() + random() % list.size());
  };
  for (int i = 0; i < count; ++i) {
    torch::manual_seed(i);
    DecoderConfig config;
    config.vocab_size = draw(17, 64, 131);
    config.head_dim = draw(4, 8, 16);
    config.num_heads = draw(1, 2, 4, 6);
    config.num_kv_heads = config.num_heads % 2 == 0 ? draw(int64_t{0}, int64_t{1}, config.num_heads / 2) : draw(0, 1);
    config.hidden_size = draw(8, 16, 24, 40);
    config.intermediate_size = draw(0, 12, 48);
    config.num_layers = draw(1, 2, 3);
    config.norm = draw("rmsnorm", "layernorm");
    config.positions = draw("rope", "learned");
    config.activation = draw("swiglu", "gelu");
    config.tie_embeddings = draw(true, false);
    config.attention_bias = draw(true, false);
    config.mlp_bias = draw(true, false);
    config.sliding_window = draw(0, 0, 3, 100);
    TrainingOptions options;
    options.precision = precisions[i % precisions.size()];
    options.gradient_checkpointing = draw(Choice::off, Choice::on);
    options.optimizer.name = draw("adamw", "sgd", "lion", "adafactor", "muon");
    options.optimizer.state_dtype = draw(StateDtype::as_parameters, StateDtype::float32);
    options.optimizer.weight_update = draw(WeightUpdate::nearest, WeightUpdate::stochastic, WeightUpdate::kahan,
                                           WeightUpdate::split, WeightUpdate::master);
    options.optimizer.momentum = draw(0.0, 0.9);
    options.max_grad_norm = draw(0.0, 0.01, 1.0);
    const int micro = draw(1, 1, 3);
    options.accumulate = micro > 1;
    const int64_t batch = draw(1, 2, 3), time = draw(1, 5, 16, 33);
    SCOPED_TRACE(::testing::Message() << "model " << i << " precision " << name_of(options.precision) << " heads "
                                      << config.num_heads << "/" << config.num_kv_heads << " dim " << config.head_dim
                                      << " T " << time << " window " << config.sliding_window);
    expect_equal(
        decoder_step(config, batch, time), options, [&] { return token_batch(batch, time, config.vocab_size); }, 2,
        micro);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Equality, RandomDecodersFp32) {
  expect_random_decoders_equal(testing::rounds(200), 3, {Precision::fp32_true});
}

TEST(Equality, RandomDecodersInLowPrecision) {
  expect_random_decoders_equal(testing::rounds(150), 4,
                               {Precision::bf16_mixed, Precision::fp16_mixed, Precision::bf16_true});
}

}  // namespace
}  // namespace plimsoll
