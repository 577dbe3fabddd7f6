// Tests checkpoints of ranks that have slices: the file is that of one rank, and any number of ranks reads it.
#include "checkpoint/checkpoint_state.h"

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "checkpoint/checkpoint.h"
#include "collectives/ranks.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

struct WholeTensor {
  std::string name;
  at::Tensor whole;
  bool sliced;
};

/// Tensors with slices of more than a piece of 1 MiB, slices with padding, one after the end (of the scales, on four
/// ranks), and dtypes of all sizes.
std::vector<WholeTensor> whole_state() {
  torch::manual_seed(12);
  return {{"weight", at::randn({300, 1100}), true},
          {"optimizer.exp_avg.weight", at::randint(0, 255, {300, 1100}, at::kByte), true},
          {"optimizer.exp_avg_scales.weight", at::randint(0, 255, {2579}, at::kByte), true},
          {"half", at::randn({33, 128}).to(at::kBFloat16), true},
          {"optimizer.remainder.half", at::randint(-99, 99, {33, 128}, at::kShort), true},
          {"large", at::randn({700, 1024}, at::kDouble), true},
          {"image", at::randn({2, 3, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast), false},
          {"bias", at::randn({17}), false},
          {"optimizer.step", at::scalar_tensor(3.0f), false}};
}

/// Returns the tensors of a rank of `exchange`; of one rank if it is null.
struct StateOfRank {
  StateOfRank(const std::vector<WholeTensor>& all, Exchange* exchange) {
    sliced.exchange = exchange;
    for (const auto& [name, whole, is_sliced] : all) {
      if (!exchange || !is_sliced) {
        state.emplace_back(name, whole.clone());
        continue;
      }
      const int64_t ranks = exchange->size(), count = whole.numel();
      const int64_t each = ((count + ranks - 1) / ranks + 1023) / 1024 * 1024;
      const at::Tensor padded = at::full({each * ranks}, 5, whole.options());
      padded.narrow(0, 0, count).copy_(whole.view(-1));
      state.emplace_back(name, padded.narrow(0, exchange->rank() * each, each).clone());
      sliced.whole_sizes[name] = whole.sizes().vec();
    }
  }

  void fill(int64_t value) const {
    for (const auto& [name, tensor] : state) tensor.fill_(value);
  }

  SlicedState sliced;
  NamedTensors state;
};

bool have_same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() &&
         at::equal(a.contiguous().view(-1).view(at::kByte), b.contiguous().view(-1).view(at::kByte));
}

class SlicedStateTest : public ::testing::Test {
 protected:
  SlicedStateTest() {
    info_.step = 3;
    info_.position = 96;
    info_.origin["model.type"] = "decoder";
    write_checkpoint(one_, info_, StateOfRank(all_, nullptr).state);
  }

  /// Returns the file that `ranks` ranks write.
  std::filesystem::path written_by(int ranks) const {
    const std::filesystem::path file = folder_ / ("of-" + std::to_string(ranks) + ".safetensors");
    for (const std::string& error : run_ranks(ranks, [&](Exchange& exchange) {
           const StateOfRank own(all_, &exchange);
           if (exchange.rank() == 0)
             write_checkpoint(file, info_, own.state, own.sliced);
           else
             send_slices(own.state, own.sliced);
         }))
      EXPECT_EQ(error, "");
    return file;
  }

  void expect_read(const std::filesystem::path& file, int ranks) const {
    for (const std::string& error : run_ranks(ranks, [&](Exchange& exchange) {
           const StateOfRank wanted(all_, &exchange), own(all_, &exchange);
           own.fill(1);
           const CheckpointInfo info = read_checkpoint(file, info_.origin, own.state, {}, own.sliced);
           if (info.position != info_.position) throw InternalError("another position");
           for (size_t i = 0; i < all_.size(); ++i) {
             const auto& [name, tensor] = own.state[i];
             const int64_t count = all_[i].whole.numel(), begin = exchange.rank() * tensor.numel();
             const int64_t kept =
                 own.sliced.is_slice(name) ? std::clamp<int64_t>(count - begin, 0, tensor.numel()) : tensor.numel();
             const at::Tensor flat = tensor.contiguous().view(-1),
                              expected = wanted.state[i].second.contiguous().view(-1);
             if (!have_same_bytes(flat.narrow(0, 0, kept), expected.narrow(0, 0, kept)))
               throw InternalError("other bytes of " + name);
             if (flat.narrow(0, kept, flat.numel() - kept).count_nonzero().item<int64_t>() != 0)
               throw InternalError("the padding of " + name + " is not 0");
           }
         }))
      EXPECT_EQ(error, "") << file << " read by " << ranks;
  }

  TempFolder folder_;
  const std::vector<WholeTensor> all_ = whole_state();
  CheckpointInfo info_;
  const std::filesystem::path one_ = folder_ / "of-1.safetensors";
};

TEST_F(SlicedStateTest, TheFileHasTheBytesOfOneRanks) {
  const std::string expected = get_file(one_);
  ASSERT_GT(expected.size(), 7'000'000u);
  for (const int ranks : {2, 3, 4}) EXPECT_TRUE(get_file(written_by(ranks)) == expected) << ranks;
}

TEST_F(SlicedStateTest, ARankThatLostItsSliceLeavesNoFile) {
  const std::filesystem::path file = folder_ / "lost.safetensors";
  // Writes the file while the second rank loses its state at call `lost` of require_state; returns the calls.
  const auto write = [&](int lost, bool fails) {
    int calls = 0;
    const std::vector<std::string> errors = run_ranks(2, [&](Exchange& exchange) {
      StateOfRank own(all_, &exchange);
      if (exchange.rank() == 0) return static_cast<void>(write_checkpoint(file, info_, own.state, own.sliced));
      own.sliced.require_state = [&] {
        if (calls++ == lost) throw UserError("the disk lost bytes");
      };
      send_slices(own.state, own.sliced);
    });
    for (const std::string& error : errors) EXPECT_EQ(error.find("the disk lost bytes") != error.npos, fails) << error;
    EXPECT_EQ(std::filesystem::exists(file), !fails);
    return calls;
  };
  const int calls = write(-1, false);
  EXPECT_GT(calls, 10);
  std::filesystem::remove(file);
  for (const int lost : {0, calls / 2, calls - 1}) write(lost, true);
}

TEST_F(SlicedStateTest, AnyNumberOfRanksReadsIt) {
  for (const int ranks : {1, 2, 3, 4}) expect_read(one_, ranks);
  const std::filesystem::path of_three = written_by(3);
  for (const int ranks : {2, 4}) expect_read(of_three, ranks);
  StateOfRank one(all_, nullptr);
  one.fill(1);
  read_checkpoint(of_three, info_.origin, one.state);
  for (size_t i = 0; i < all_.size(); ++i) EXPECT_TRUE(have_same_bytes(one.state[i].second, all_[i].whole));
}

TEST_F(SlicedStateTest, ASliceOfAnotherTensorIsRefused) {
  std::vector<WholeTensor> other = all_;
  other[0].whole = at::zeros({301, 1100});
  const std::vector<std::string> errors = run_ranks(2, [&](Exchange& exchange) {
    const StateOfRank own(other, &exchange);
    own.fill(1);
    const std::string message = user_error_of([&] { read_checkpoint(one_, info_.origin, own.state, {}, own.sliced); });
    EXPECT_THAT(message, AllOf(HasSubstr("nothing was loaded"), HasSubstr("[300, 1100]"), HasSubstr("[301, 1100]")));
    for (const auto& [name, tensor] : own.state) EXPECT_TRUE(tensor.eq(1).all().item<bool>()) << name;
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST_F(SlicedStateTest, StateOfAnotherFormatIsRefusedWithARemedy) {
  std::vector<WholeTensor> other = all_;
  other[4] = {"optimizer.master.half", at::zeros({33, 128}), true};
  const std::vector<std::string> errors = run_ranks(2, [&](Exchange& exchange) {
    const StateOfRank own(other, &exchange);
    EXPECT_THAT(user_error_of([&] { read_checkpoint(one_, info_.origin, own.state, {}, own.sliced); }),
                HasSubstr("set optimizer.state_dtype and optimizer.weight_update as they were"));
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(SlicedState, WithoutAnExchangeNoTensorIsASlice) {
  const SlicedState sliced{{{"w", {5, 7}}}, nullptr};
  EXPECT_FALSE(sliced.is_slice("w"));
  EXPECT_EQ(sliced.sizes_of("w", at::zeros({3})), (std::vector<int64_t>{3}));
}

TEST(SlicedState, LargeElementsAreWrittenFirstAndOthersInOrder) {
  const NamedTensors ordered = in_file_order({{"a", at::zeros({2}, at::kByte)},
                                              {"b", at::zeros({2}, at::kBFloat16)},
                                              {"c", at::zeros({2}, at::kDouble)},
                                              {"d", at::zeros({2}, at::kHalf)}});
  std::string names;
  for (const auto& [name, tensor] : ordered) names += name;
  EXPECT_EQ(names, "cbda");
}

// At most 1 MiB a piece, in order, on the first rank alone.
TEST(SlicedState, PiecesAreTheWholeInOrder) {
  const at::Tensor whole = at::arange(1'000'000, at::kInt);
  std::vector<std::string> bytes(3);
  for (const std::string& error : run_ranks(3, [&](Exchange& exchange) {
         const int64_t each = 334'848, begin = exchange.rank() * each;
         const at::Tensor own = at::full({each}, 5, at::kInt);
         const int64_t count = std::min(each, whole.numel() - begin);
         own.narrow(0, 0, count).copy_(whole.narrow(0, begin, count));
         for_each_piece("w", own, {{{"w", {1000, 1000}}}, &exchange}, [&](std::span<const std::byte> piece) {
           if (piece.size() > 1 << 20) throw InternalError("a large piece");
           bytes[static_cast<size_t>(exchange.rank())].append(reinterpret_cast<const char*>(piece.data()),
                                                              piece.size());
         });
       }))
    EXPECT_EQ(error, "");
  EXPECT_TRUE(bytes[0] == std::string(static_cast<const char*>(whole.const_data_ptr()), whole.nbytes()));
  EXPECT_EQ(bytes[1] + bytes[2], "");
}

}  // namespace
}  // namespace plimsoll
