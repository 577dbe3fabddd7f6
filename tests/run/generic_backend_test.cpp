// Tests the same plans on a device that is unknown to Plimsoll.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "checkpoint/checkpoint.h"
#include "device/backend.h"
#include "plimsoll/error.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"
#include "run/equality.h"
#include "run/fake_device.h"
#include "run/training_runs.h"
#include "run/watched_backend.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using testing::RunResult;
using testing::train;

Step three_layer_decoder() {
  DecoderConfig config;
  config.vocab_size = 512;
  config.hidden_size = 64;
  config.num_layers = 3;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  return decoder_step(config, 2, 64);
}

RunResult train_on(const std::string& device, TrainingOptions options, int micro = 1) {
  options.device = device;
  options.accumulate = micro > 1;
  return train(three_layer_decoder(), options, micro, 3);
}

class GenericBackend : public ::testing::Test {
 protected:
  void SetUp() override { testing::add_fake_device(); }
};

TEST_F(GenericBackend, GivesTheLossesOfTheCpu) {
  const RunResult cpu = train_on("cpu", {}), fake = train_on("made_up", {});
  EXPECT_GT(testing::fake_use().kernels, 100);
  EXPECT_EQ(fake.losses, cpu.losses);
  EXPECT_EQ(fake.norms, cpu.norms);
  for (const auto& [name, tensor] : cpu.state)
    EXPECT_TRUE(testing::same_bits(fake.state.at(name).cpu(), tensor)) << name;
}

// The planned bytes are the bytes allocated on the device, except those in which its kernels make results before they
// are copied.
TEST_F(GenericBackend, ItsArenaIsAsPlanned) {
  const RunResult fake = train_on("made_up", {.gradient_checkpointing = Choice::on});
  EXPECT_EQ(fake.used.arena, fake.plan.arena_bytes);
  EXPECT_LE(fake.used.touched, fake.plan.arena_bytes);
}

TEST_F(GenericBackend, RecomputesAccumulatesAndMovesToTheHost) {
  const RunResult whole = train_on("made_up", {}, 2);
  const int64_t least = [&] {
    TrainingOptions options{.budget = {.host = int64_t{1} << 30}, .device = "made_up"};
    options.accumulate = true;
    return Training(three_layer_decoder(), options).minimum_budget_bytes();
  }();
  ASSERT_LT(least, whole.plan.peak_bytes);
  const RunResult tight = train_on("made_up", {.budget = {.device = least, .host = int64_t{1} << 30}}, 2);
  EXPECT_GT(tight.plan.host_bytes, 0);
  EXPECT_LE(tight.used.arena, least);
  EXPECT_EQ(tight.losses, whole.losses);
  EXPECT_EQ(tight.norms, whole.norms);
}

// A caller that received the state may write to it on its own streams: from then on the step waits for all streams.
TEST_F(GenericBackend, StateThatWasGivenOutIsWaitedFor) {
  static testing::WatchedBackend watched(backend_for("made_up"));
  add_backend("watched_made_up", watched);
  Training training(three_layer_decoder(), {.evaluate = true, .device = "watched_made_up"});
  training.start();
  const testing::Batch batch = testing::token_batch(2, 64, 512);
  training.step({batch}, 1e-3);
  training.evaluate(batch);
  EXPECT_EQ(watched.device_waits, 0);
  training.state();
  training.step({batch}, 1e-3);
  EXPECT_EQ(watched.device_waits, 1);
  training.evaluate(batch);
  EXPECT_EQ(watched.device_waits, 2);
}

// Written from one device and read into another.
TEST_F(GenericBackend, ItsCheckpointsAreThoseOfTheCpu) {
  const TempFolder folder;
  const auto file = folder.path() / "step.safetensors";
  Training fake(three_layer_decoder(), {.device = "made_up"}), cpu(three_layer_decoder(), {.seed = 5});
  fake.start();
  cpu.start();
  fake.step({testing::token_batch(2, 64, 512)}, 1e-3);
  write_checkpoint(file, {.step = 1}, fake.state());
  read_checkpoint(file, {}, cpu.state());
  const auto written = fake.state(), read = cpu.state();
  for (size_t i = 0; i < written.size(); ++i)
    EXPECT_TRUE(testing::same_bits(written[i].second.cpu(), read[i].second)) << written[i].first;
  Training again(three_layer_decoder(), {.device = "made_up", .seed = 6});
  again.start();
  read_checkpoint(file, {}, again.state());
  const auto back = again.state();
  for (size_t i = 0; i < written.size(); ++i)
    EXPECT_TRUE(testing::same_bits(written[i].second.cpu(), back[i].second.cpu())) << written[i].first;
}

TEST_F(GenericBackend, MovesRangesAsIfAtOnce) {
  Backend& backend = backend_for("made_up");
  const auto arena = backend.allocate_arena(1024), host = backend.allocate_host_arena(1024);
  std::vector<uint8_t> values(1024);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i / 64);
  backend.write(*arena, 0, values.data(), 1024);
  backend.relocate({{arena->data(), arena->data() + 64, 128}, {arena->data() + 128, host->data(), 64}});
  std::vector<uint8_t> now(1024);
  backend.read(*arena, 0, now.data(), 1024);
  EXPECT_EQ(now[0], 0);
  EXPECT_EQ(now[64], 0);
  EXPECT_EQ(now[128], 1);
  EXPECT_EQ(std::to_integer<int>(host->data()[0]), 2);
}

TEST_F(GenericBackend, GrowsWithItsContents) {
  Backend& backend = backend_for("made_up");
  const auto arena = backend.allocate_arena(100);
  const float value = 3.5F;
  backend.write(*arena, 64, &value, sizeof value);
  EXPECT_EQ(arena->touched_bytes(), 68);
  arena->grow(4096);
  float read = 0;
  backend.read(*arena, 64, &read, sizeof read);
  EXPECT_EQ(read, value);
  EXPECT_EQ(arena->bytes(), 4096);
  EXPECT_EQ(arena->touched_bytes(), 68);
}

TEST(Backends, ADeviceThatIsNotHereSaysWhatIsMissing) {
  EXPECT_EQ(find_backend("abacus"), nullptr);
  try {
    backend_for("abacus");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("allowed are cpu, cuda, rocm, mps"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace plimsoll
