// Tests ranks that fail, as processes: the others name them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <future>

#include "collectives/ranks.h"

namespace plimsoll {
namespace {

using testing::Each;
using testing::HasSubstr;

/// Three processes exchange without end; rank 2 does `misdeed` at exchange 5. Returns the exceptions of the ranks.
std::vector<std::string> with_misdeed(const std::function<void(Exchange&)>& misdeed,
                                      SharedMemoryOptions options = {std::chrono::seconds(3), "here"}) {
  const auto block = shared_block(3);
  return run_processes(3, [&](int rank) {
    auto exchange = std::make_unique<SharedMemoryExchange>(block, rank, 3, options);
    const at::Tensor sum = at::ones({10}), source = at::ones({30});
    std::string error;
    for (int step = 0; error.empty(); ++step) {
      exchange->note("step " + std::to_string(step) + ", plimsoll::reduce_scatter_ of layers.3.weight");
      if (rank == 2 && step == 5) {
        misdeed(*exchange);
        exchange.reset();
        ::usleep(200'000);
        return std::string();
      }
      error = error_of([&] { exchange->reduce_scatter(sum, source, true); });
    }
    exchange->fail(error);  // exits like a program that ends with an error
    return error;
  });
}

void expect_from_others(const std::vector<std::string>& texts, const std::string& message) {
  for (size_t r = 0; r < 2; ++r) EXPECT_EQ(texts[r], message);
}

const std::string kPlace = "step 5, plimsoll::reduce_scatter_ of layers.3.weight";

TEST(SharedMemoryFaults, ARankThatIsKilledIsNamed) {
  expect_from_others(with_misdeed([](Exchange&) { ::raise(SIGKILL); }), "rank 2 (host here) ended in " + kPlace);
}

TEST(SharedMemoryFaults, ARankThatIsStoppedIsNamed) {
  expect_from_others(with_misdeed([](Exchange&) { ::raise(SIGSTOP); }),
                     "rank 2 (host here) has not answered for 3 s; it was at " + kPlace);
}

TEST(SharedMemoryFaults, ARankThatFailsIsNamedWithItsReason) {
  expect_from_others(
      with_misdeed([](Exchange& e) { e.fail("cannot write run/model.safetensors: No space left"); }),
      "rank 2 (host here) failed: cannot write run/model.safetensors: No space left; it was at " + kPlace);
}

TEST(SharedMemoryFaults, ARankThatEndsItsRunTooEarlyIsNamed) {
  const auto texts = with_misdeed([](Exchange&) {});
  for (size_t r = 0; r < 2; ++r) EXPECT_THAT(texts[r], HasSubstr("rank 2 (host here) has ended its run; rank "));
}

/// Rank 0 of three computes for long and watches. Rank 1 finishes, and rank 2 does `misdeed`. Returns the order of what
/// rank 0 is told.
std::string told_while_computing(const std::function<void(Exchange&)>& misdeed) {
  const auto block = shared_block(3);
  return run_processes(3, [&](int rank) {
    LossNotes notes;
    auto exchange = std::make_unique<SharedMemoryExchange>(
        block, rank, 3, SharedMemoryOptions{std::chrono::seconds(3), "here", notes.on_lost_rank()});
    exchange->note("the planning");
    exchange->gather_text("");
    if (rank == 1) return std::string();
    if (rank == 2) {
      misdeed(*exchange);
      return std::string();
    }
    exchange->watch_others(notes.on_loss());
    return notes.wait();
  })[0];
}

TEST(SharedMemoryFaults, ARankThatIsKilledIsNamedWhileAnotherComputes) {
  EXPECT_EQ(told_while_computing([](Exchange&) { ::raise(SIGKILL); }),
            "noticed; rank 2 (host here) ended in the planning");
}

TEST(SharedMemoryFaults, ARankThatIsStoppedIsNamedWhileAnotherComputes) {
  EXPECT_EQ(told_while_computing([](Exchange&) { ::raise(SIGSTOP); }),
            "noticed; rank 2 (host here) has not answered for 3 s; it was at the planning");
}

TEST(SharedMemoryFaults, ARankThatFailsIsNamedWhileAnotherComputes) {
  EXPECT_EQ(told_while_computing([](Exchange& exchange) { exchange.fail("no space left"); }),
            "noticed; rank 2 (host here) failed: no space left; it was at the planning");
}

// A run that was lost by one rank and noticed by the train loop stops where it is: it throws in its next exchange.
TEST(SharedMemoryFaults, AfterALossTheNextExchangeThrows) {
  const auto block = shared_block(2);
  const auto texts = run_processes(2, [&](int rank) {
    SharedMemoryExchange exchange(block, rank, 2, {std::chrono::seconds(3), "here"});
    exchange.note("the planning");
    exchange.gather_text("");
    if (rank == 1) ::raise(SIGKILL);
    std::promise<void> noticed;
    exchange.watch_others([&] { noticed.set_value(); });
    noticed.get_future().wait();
    return error_of([&] { exchange.gather_text(""); });
  });
  EXPECT_EQ(texts[0], "rank 1 (host here) ended in the planning");
}

TEST(SharedMemoryFaults, ARankThatDoesNotComeIsNamed) {
  const auto block = shared_block(2);
  SharedMemoryExchange exchange(block, 0, 2, {std::chrono::milliseconds(500), "here"});
  EXPECT_EQ(error_of([&] { exchange.gather_text("a"); }),
            "rank 1 has not answered for 0.5 s; it was before its first step");
}

// The ranks wait for a rank that is late but alive.
TEST(SharedMemoryFaults, ASlowRankIsNoFault) {
  const auto block = shared_block(2);
  const auto texts = run_processes(2, [&](int rank) {
    SharedMemoryExchange exchange(block, rank, 2, {std::chrono::milliseconds(800), "here"});
    if (rank == 1) ::usleep(2'000'000);
    return exchange.gather_text("x").at(1);
  });
  EXPECT_THAT(texts, Each("x"));
}

TEST(SharedMemoryFaults, LongNotesAreCutBetweenCharacters) {
  const auto block = shared_block(2);
  SharedMemoryExchange waiting(block, 0, 2, {std::chrono::seconds(3), "here"});
  SharedMemoryExchange failing(block, 1, 2, {std::chrono::seconds(3), "here"});
  std::string place(199, 'a');
  failing.note(place + "\xc3\xa4\xc3\xa4");
  failing.fail("why");
  EXPECT_EQ(error_of([&] { waiting.gather_text("a"); }), "rank 1 (host here) failed: why; it was at " + place);
}

}  // namespace
}  // namespace plimsoll
