// Tests that ranks that have slices of a state load what one rank loads, each its part.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "checkpoint/checkpoint_state.h"
#include "models/decoder.h"
#include "plimsoll/error.h"
#include "weights/checkpoint_weights.h"
#include "weights/families.h"
#include "weights/family_files.h"
#include "weights/model_weights.h"
#include "weights/weight_slots.h"

namespace plimsoll {
namespace {

// Says which rank it is; loading exchanges nothing.
class PretendedRank final : public Exchange {
 public:
  PretendedRank(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void reduce_scatter(const at::Tensor&, const at::Tensor&, bool) override { refuse_call(); }
  void all_reduce(const at::Tensor&, const at::Tensor&, bool) override { refuse_call(); }
  void all_gather(const at::Tensor&) override { refuse_call(); }
  void broadcast(const at::Tensor&, int) override { refuse_call(); }
  std::vector<std::string> gather_text(std::string_view) override { return refuse_call(), std::vector<std::string>{}; }
  void note(std::string_view) override {}
  void fail(std::string_view) noexcept override {}
  int64_t bytes_sent() const override { return 0; }
  int64_t held_bytes() const override { return 0; }

 private:
  static void refuse_call() { throw InternalError("loading exchanges nothing"); }
  int rank_, size_;
};

struct Layout {
  at::ScalarType type;
  const char* companion;  // "": none
  bool apart;             // slices of the parameters too
};

const std::vector<Layout> kLayouts = {
    {at::kFloat, "", true},
    {at::kBFloat16, "", true},
    {at::kHalf, "", true},
    {at::kBFloat16, "master", true},
    {at::kBFloat16, "remainder", true},
    {at::kBFloat16, "compensation", true},
    {at::kHalf, "master", true},
    {at::kBFloat16, "master", false},
    {at::kBFloat16, "remainder", false},
    {at::kBFloat16, "compensation", false},
};

std::string text_of(const Layout& layout) {
  return c10::str(layout.type, " ", layout.companion, layout.apart ? ", sliced" : ", whole");
}

at::ScalarType companion_type(const Layout& layout) {
  const std::string kind = layout.companion;
  return kind == "master" ? at::kFloat : kind == "remainder" ? at::kShort : layout.type;
}

// Small, so that tensors of 16 elements end within the slice of the first rank.
int64_t slice_of(int64_t elements, int64_t ranks) {
  return ((elements + ranks - 1) / ranks + 39) / 40 * 40;
}

/// A state with names and sizes of `model`; filled with 7, so that elements that are not written are seen.
struct RankState {
  RankState(const NamedTensors& model, const Layout& layout, int rank, int ranks) : exchange(rank, ranks) {
    const auto add = [&](const std::string& name, const at::Tensor& whole, at::ScalarType type, bool slice) {
      if (slice) sliced.whole_sizes[name] = whole.sizes().vec();
      state.emplace_back(
          name, slice ? at::full({slice_of(whole.numel(), ranks)}, 7, type) : at::full(whole.sizes(), 7, type));
    };
    if (ranks > 1) sliced.exchange = &exchange;
    for (const auto& [name, whole] : model) {
      add(name, whole, layout.type, ranks > 1 && layout.apart);
      if (*layout.companion) add(companion_name(layout.companion, name), whole, companion_type(layout), ranks > 1);
    }
  }

  PretendedRank exchange;
  SlicedState sliced;
  NamedTensors state;
};

using Load = std::function<void(const NamedTensors&, const SlicedState&)>;

// Loads as one rank and as two and three, in every layout. Compares bytes.
void expect_same_weights(const NamedTensors& model, const Load& load) {
  for (const Layout& layout : kLayouts) {
    const RankState one(model, layout, 0, 1);
    load(one.state, one.sliced);
    for (const int ranks : {2, 3}) {
      std::vector<std::unique_ptr<RankState>> all;
      for (int rank = 0; rank < ranks; ++rank) {
        all.push_back(std::make_unique<RankState>(model, layout, rank, ranks));
        load(all.back()->state, all.back()->sliced);
      }
      for (size_t i = 0; i < one.state.size(); ++i) {
        const auto& [name, whole] = one.state[i];
        const std::string what = c10::str(name, ", ", text_of(layout), ", ", ranks, " ranks");
        if (!all[0]->sliced.is_slice(name)) {
          for (const auto& rank : all) EXPECT_TRUE(at::equal(rank->state[i].second, whole)) << what;
          continue;
        }
        std::vector<at::Tensor> slices;
        for (const auto& rank : all) slices.push_back(rank->state[i].second);
        const at::Tensor joined = at::cat(slices);
        ASSERT_GE(joined.numel(), whole.numel()) << what;
        EXPECT_TRUE(at::equal(joined.narrow(0, 0, whole.numel()), whole.reshape(-1))) << what;
        EXPECT_EQ(joined.narrow(0, whole.numel(), joined.numel() - whole.numel()).count_nonzero().item<int64_t>(), 0)
            << "padding of " << what;
      }
    }
  }
}

NamedTensors decoder_of(const std::string& family, const std::string& prefix = "") {
  const model::DecoderImpl model(weights::read_architecture(kFamilies / family).config, 12);
  NamedTensors named;
  for (const auto& entry : model.named_parameters()) named.emplace_back(prefix + entry.key(), entry.value().detach());
  return named;
}

// Among them weights in pieces, in interleaved heads, transposed, and less by one than ours.
TEST(SlicedWeights, TogetherAreWhatOneRankLoads) {
  for (const char* family : {"llama", "gemma2", "gpt2"}) {
    SCOPED_TRACE(family);
    expect_same_weights(decoder_of(family), [&](const NamedTensors& state, const SlicedState& sliced) {
      load_decoder_weights(kFamilies / family, {}, state, "", sliced);
    });
  }
}

TEST(SlicedWeights, OfAPartOfAModel) {
  expect_same_weights(decoder_of("llama", "llm."), [](const NamedTensors& state, const SlicedState& sliced) {
    load_decoder_weights(kFamilies / "llama", {}, state, "llm.", sliced);
  });
  ModelConfig model;
  model.llm_weights = kFamilies / "llama";
  expect_same_weights(decoder_of("llama", "llm."), [&](const NamedTensors& state, const SlicedState& sliced) {
    load_model_weights(model, state, sliced);
  });
}

TEST(SlicedWeights, OfAFileOfOurs) {
  const TempFolder folder;
  torch::manual_seed(3);
  const at::NoGradGuard no_grad;
  const NamedTensors model = {
      {"w", torch::randn({30, 20})}, {"bias", torch::randn({30})}, {"last", torch::randn({120})}};
  write_tensors(folder / "ours.safetensors", {model.begin(), model.end()});
  expect_same_weights(model, [&](const NamedTensors& state, const SlicedState& sliced) {
    load_weights(folder / "ours.safetensors", state, "model.weights", sliced);
  });
}

// Halves between two bfloat16 numbers: split rounds them away from zero, copies round them to even.
TEST(SlicedWeights, AWholeParameterIsRoundedAsItsCompanionSays) {
  const TempFolder folder;
  const NamedTensors model = {{"w", torch::full({400}, 1.00390625)}};
  write_tensors(folder / "ties.safetensors", {model.begin(), model.end()});
  const RankState rank(model, {at::kBFloat16, "remainder", false}, 0, 2);
  load_weights(folder / "ties.safetensors", rank.state, "model.weights", rank.sliced);
  EXPECT_EQ(rank.state[0].second.to(at::kFloat).min().item<float>(), 1.0078125f);
}

// One whole tensor at a time: nothing is copied into a slice before the whole is there.
TEST(SlicedWeights, SizesWantedAreThoseOfTheWhole) {
  for (const bool apart : {true, false}) {
    const RankState rank({{"w", at::zeros({10, 30})}}, {at::kBFloat16, "master", apart}, 1, 2);
    const std::vector<WeightSlot> wanted = weight_slots(rank.state, rank.sliced);
    ASSERT_EQ(wanted.size(), 1u);
    EXPECT_EQ(wanted[0].sizes, (std::vector<int64_t>{10, 30}));
    EXPECT_FALSE(wanted[0].copy_target.defined());
  }
  const RankState one({{"w", at::zeros({10, 30})}}, {at::kFloat, "", true}, 0, 1);
  EXPECT_TRUE(weight_slots(one.state)[0].copy_target.is_same(one.state[0].second));
}

TEST(SlicedWeights, OtherSizesAreRefusedWithThoseOfTheWhole) {
  const TempFolder folder;
  write_tensors(folder / "other.safetensors", {{"w", at::zeros({10, 31})}});
  const RankState rank({{"w", at::zeros({10, 30})}}, {at::kFloat, "", true}, 1, 2);
  const std::string message =
      user_error_of([&] { load_weights(folder / "other.safetensors", rank.state, "model.weights", rank.sliced); });
  EXPECT_NE(message.find("'w' is float32 [10, 31] in the file, float32 [10, 30] in the model"), std::string::npos)
      << message;
  EXPECT_EQ(rank.state[0].second.min().item<float>(), 7);
}

}  // namespace
}  // namespace plimsoll
