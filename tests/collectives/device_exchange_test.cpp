#include "collectives/device_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/exchange_bits.h"
#include "collectives/fake_device_group.h"
#include "collectives/nccl_memory.h"
#include "collectives/rank_fault.h"
#include "collectives/ranks.h"
#include "ops/rows.h"
#include "ops/workspace/workspace.h"
#include "plimsoll/trace.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

/// A host exchange that a DeviceExchange owns, on one that a test owns.
class BorrowedExchange final : public Exchange {
 public:
  explicit BorrowedExchange(Exchange& host) : host_(host) {}
  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  void reduce_scatter(const at::Tensor& sum, const at::Tensor& source, bool first) override {
    host_.reduce_scatter(sum, source, first);
  }
  void all_reduce(const at::Tensor& sum, const at::Tensor& source, bool first) override {
    host_.all_reduce(sum, source, first);
  }
  void all_gather(const at::Tensor& whole) override { host_.all_gather(whole); }
  void broadcast(const at::Tensor& tensor, int root) override { host_.broadcast(tensor, root); }
  std::vector<std::string> gather_text(std::string_view text) override { return host_.gather_text(text); }
  void note(std::string_view place) override { host_.note(place); }
  void fail(std::string_view why) noexcept override { host_.fail(why); }
  int64_t bytes_sent() const override { return host_.bytes_sent(); }
  int64_t held_bytes() const override { return host_.held_bytes(); }

 private:
  Exchange& host_;
};

DeviceExchangeParts parts_of(Exchange& host, const std::shared_ptr<DeviceGroup>& group) {
  DeviceExchangeParts parts;
  parts.host = std::make_unique<BorrowedExchange>(host);
  parts.group = group;
  parts.device = c10::kCPU;  // device of the fake
  parts.wait = [](const c10::intrusive_ptr<c10d::Work>& work) {
    try {
      if (work->wait(std::chrono::seconds(30))) return;
    } catch (const std::exception& error) {
      throw_failure(std::string("rank 1 ended: ") + error.what());
    }
    throw_failure("rank 1 ended");
  };
  parts.throw_broken = [](const std::string& problem) { throw_failure("rank 1 is gone: " + problem); };
  return parts;
}

/// Runs `work` on `size` threads with an exchange of devices each; returns what each threw.
std::vector<std::string> run_devices(int size, const std::function<void(Exchange&, FakeDeviceGroup&)>& work) {
  const auto devices = std::make_shared<FakeDevices>(size);
  return run_ranks(size, [&](Exchange& host) {
    const auto group = std::make_shared<FakeDeviceGroup>(devices, host.rank(), size);
    work(*make_device_exchange(parts_of(host, group)), *group);
  });
}

class DeviceExchangeOf : public ::testing::TestWithParam<int> {};

TEST_P(DeviceExchangeOf, SumsHaveTheBitsOfASerialLoop) {
  EXPECT_THAT(run_devices(GetParam(), [](Exchange& e, auto&) { check_all_sums(e, {0, 1, 2, 5, 64, 1001}); }), Each(""));
}

TEST_P(DeviceExchangeOf, CopiesOfAnyTypeAreWhole) {
  EXPECT_THAT(
      run_devices(GetParam(),
                  [](Exchange& e, auto&) {
                    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kByte, at::kLong, at::kBool})
                      for (const int64_t slice : {0, 1, 17, 30'001}) check_copies(e, slice, type);
                  }),
      Each(""));
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceExchangeOf, testing::Values(1, 2, 3, 4, 8));

// The parts of all ranks together are larger than the landing buffers.
TEST(DeviceExchange, LargeSumsComeInPieces) {
  EXPECT_THAT(run_devices(3,
                          [](Exchange& e, FakeDeviceGroup& group) {
                            const int64_t elements = 9'000'011, slice = elements / 3 + 5;
                            check_sums(e, elements, slice, at::kFloat, at::kFloat, true);
                            // Six sums, each of two pieces, and two all-gathers in them.
                            check(group.largest_part <= slice * 4, "a part is larger than a slice");
                            check(group.rounds == 2 + (2 + 1) + (2 + 1), "another number of pieces");
                          }),
              Each(""));
}

// Operators of the executor allocate from the planned workspace.
TEST(DeviceExchange, LandingPlacesAreLimited) {
  EXPECT_EQ(ops::device_landing_bytes(1), (64 << 10) + 256);
  EXPECT_EQ(ops::device_landing_bytes(1 << 20), (1 << 20) + (64 << 10));
  EXPECT_EQ(ops::device_landing_bytes(int64_t{1} << 40), ops::kMaxDeviceLanding);
}

TEST(DeviceExchange, LandingPlacesArePlanned) {
  View source;
  source.dtype = DType::bfloat16;
  source.sizes = {1001};
  source.strides = {1};
  Op op;
  op.arguments.resize(3);
  for (Argument& each : op.arguments) each.views = {source};
  for (const char* name : {"plimsoll::reduce_scatter_", "plimsoll::all_reduce_"}) {
    op.name = name;
    EXPECT_EQ(ops::cuda_workspace_bytes(op), ops::device_landing_bytes(2002));
  }
  for (const char* name : {"plimsoll::all_gather_", "plimsoll::gather_", "plimsoll::broadcast_"}) {
    op.name = name;
    EXPECT_EQ(ops::cuda_workspace_bytes(op), 0);
  }
}

TEST(DeviceExchange, TextsGoThroughTheHost) {
  EXPECT_THAT(run_devices(3,
                          [](Exchange& e, auto&) {
                            e.note("step 1");
                            EXPECT_THAT(e.gather_text(std::to_string(e.rank())), ElementsAre("0", "1", "2"));
                          }),
              Each(""));
}

// Checkpoints and evaluations have them.
TEST(DeviceExchange, TensorsOfTheHostGoThroughTheHost) {
  const auto errors = run_ranks(3, [](Exchange& host) {
    const auto group = std::make_shared<FakeDeviceGroup>(std::make_shared<FakeDevices>(3), host.rank(), 3);
    DeviceExchangeParts parts = parts_of(host, group);
    parts.device = c10::kCUDA;
    const auto exchange = make_device_exchange(std::move(parts));
    group->refusal = "a tensor of the host went to the device";
    check_all_sums(*exchange, {1, 5, 1001});
    check_copies(*exchange, 17, at::kLong);
    check(exchange->bytes_sent() == host.bytes_sent(), "other bytes are counted");
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(DeviceExchange, CountsTheBytesThatItSends) {
  EXPECT_THAT(run_devices(4, [](Exchange& e, auto&) { check_bytes_sent(e); }), Each(""));
}

TEST(DeviceExchange, TypesThatCannotBeSummedAreADefect) {
  const auto errors =
      run_devices(2, [](Exchange& e, auto&) { e.all_reduce(at::zeros({4}, at::kBFloat16), at::zeros({4}), true); });
  EXPECT_THAT(errors, Each(HasSubstr("dtypes that cannot be summed")));
}

// --- failures, on one rank of two: the other one never comes

struct Alone {
  Alone() {
    const auto block = shared_block(1);
    host = std::make_unique<SharedMemoryExchange>(block, 0, 1);
    group = std::make_shared<FakeDeviceGroup>(std::make_shared<FakeDevices>(1), 0, 1);
  }
  std::unique_ptr<Exchange> exchange() const { return make_device_exchange(parts_of(*host, group)); }
  std::unique_ptr<Exchange> host;
  std::shared_ptr<FakeDeviceGroup> group;
};

TEST(DeviceExchangeFailure, AGroupThatDoesNotConnectIsAnErrorOfTheUser) {
  const Alone rank;
  rank.group->refusal = "no route\nand a trace";
  const std::string error = user_error_of([&] { rank.exchange(); });
  EXPECT_THAT(error, HasSubstr("rank 0 (host " + host_name() + ") cannot connect its device"));
  EXPECT_THAT(error, HasSubstr("no route; set NCCL_DEBUG=INFO"));
  EXPECT_THAT(error, testing::Not(HasSubstr("trace")));
}

TEST(DeviceExchangeFailure, ARankThatIsGoneIsNamedAndTheGroupAborted) {
  const Alone rank;
  const auto exchange = rank.exchange();
  rank.group->failure_at_mark = "connection closed";
  const at::Tensor sum = at::zeros({4});
  EXPECT_EQ(user_error_of([&] { exchange->all_reduce(sum, at::ones({4}), true); }), "rank 1 ended: connection closed");
  EXPECT_TRUE(rank.group->aborted());
}

TEST(DeviceExchangeFailure, CallsThatTheGroupRefusesAreExplained) {
  const auto devices = std::make_shared<FakeDevices>(2);
  const auto errors = run_ranks(2, [&](Exchange& host) {
    const auto group = std::make_shared<FakeDeviceGroup>(devices, host.rank(), 2);
    const auto exchange = make_device_exchange(parts_of(host, group));
    if (host.rank() == 1) return;
    group->refusal = "NCCL error\nof a line";
    exchange->all_gather(at::zeros({4}));
  });
  EXPECT_EQ(errors[0], "rank 1 is gone: NCCL error");
}

TEST(DeviceExchangeFailure, ARankThatFailsDoesNotWaitForTheOthers) {
  const Alone rank;
  rank.exchange()->fail("no memory");
  EXPECT_TRUE(rank.group->aborted());
}

TEST(PolledWork, EndsWhenItIsDoneOrAborted) {
  int requested = 0;
  PolledWork done([&] { return ++requested == 3; });
  EXPECT_TRUE(done.wait(std::chrono::hours(1)));
  EXPECT_EQ(requested, 3);
  PolledWork endless([] { return false; });
  EXPECT_FALSE(endless.wait(std::chrono::milliseconds(1)));
  std::thread other([&] { endless.abort(); });
  EXPECT_FALSE(endless.wait(std::chrono::hours(1)));
  other.join();
}

TEST(NcclMemory, GrowsWithThePeersOfAMachine) {
  EXPECT_EQ(nccl_bytes(1), 0);
  EXPECT_EQ(nccl_bytes(2), kNcclBaseBytes + kNcclChannels * kNcclChannelBytes);
  EXPECT_EQ(nccl_bytes(8), kNcclBaseBytes + 7 * kNcclChannels * kNcclChannelBytes);
  EXPECT_EQ(nccl_bytes(64), nccl_bytes(8));
}

TEST(DeviceGroup, ADeviceWithoutCollectivesIsAnErrorOfTheUser) {
  EXPECT_THAT(user_error_of([] { make_device_group("cpu", {}, {}); }), HasSubstr("device cpu: this build cannot"));
}

}  // namespace
}  // namespace plimsoll
