#include "run/executor/exchange_lane.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <vector>

#include "collectives/exchange.h"

namespace plimsoll {
namespace {

TEST(ExchangeLane, MakesExchangesInOrderBesideItsCaller) {
  ExchangeLane lane(nullptr);
  EXPECT_TRUE(lane.idle());
  std::promise<void> go;
  std::shared_future<void> going = go.get_future().share();
  std::vector<int> made;
  const int64_t first = lane.start([&] { going.wait(), made.push_back(1); }, nullptr, 0);
  const int64_t second = lane.start([&] { made.push_back(2); }, nullptr, 0);
  EXPECT_FALSE(lane.idle());  // the caller goes on
  go.set_value();
  lane.wait(first);
  lane.wait(second);
  EXPECT_TRUE(lane.idle());
  EXPECT_EQ(made, (std::vector<int>{1, 2}));
}

TEST(ExchangeLane, AfterAFailureNoneIsMade) {
  ExchangeLane lane(nullptr);
  std::atomic<int> made = 0;
  const int64_t first = lane.start([&] { ++made; }, nullptr, 0);
  const int64_t second = lane.start([] { throw std::runtime_error("rank 1 is gone"); }, nullptr, 0);
  const int64_t third = lane.start([&] { ++made; }, nullptr, 0);
  EXPECT_THROW(lane.wait(third), std::runtime_error);
  EXPECT_THROW(lane.wait(second), std::runtime_error);
  static_cast<void>(first);
  EXPECT_EQ(made, 1);
  EXPECT_TRUE(lane.wait_for_all());  // the step is over: the next one begins again
  EXPECT_FALSE(lane.wait_for_all());
  lane.wait(lane.start([&] { ++made; }, nullptr, 0));
  EXPECT_EQ(made, 2);
}

TEST(ExchangeLane, ACallHasThePlaceOfItsCaller) {
  ExchangeLane lane(nullptr);
  std::string place;
  {
    const ExchangeScope scope(nullptr, "step 12");
    lane.wait(lane.start([&] { place = current_place(); }, nullptr, 0));
  }
  EXPECT_EQ(place, "step 12");
}

// A device's line: it follows the ops before the start of the exchange, and provides the scratch.
TEST(ExchangeLane, RunsOnTheLineOfTheDevice) {
  struct Line : SideLine {
    explicit Line(std::vector<std::string>& log) : log(log) {}
    void follow() override { log.emplace_back("follow"); }
    void run(AllocationFrame& frame, const std::function<void()>& op) override {
      std::byte* const place = static_cast<std::byte*>(frame.place_for(64));
      log.push_back(place == nullptr ? "no scratch" : "scratch");
      op();
      if (place) frame.release(place);
    }
    std::vector<std::string>& log;
  };
  std::vector<std::string> log;
  std::vector<std::byte> landing(256);
  ExchangeLane lane(std::make_unique<Line>(log));
  lane.wait(lane.start([&] { log.emplace_back("exchange"); }, landing.data(), 256));
  EXPECT_EQ(log, (std::vector<std::string>{"follow", "scratch", "exchange"}));
}

// Each start has its turn on the line, also a start without an exchange: later work waits for the right ops.
TEST(ExchangeLane, WhatIsNotMadeTakesItsTurnOnTheLine) {
  struct Line : SideLine {
    Line(std::atomic<int>& followed, std::atomic<int>& ran) : followed(followed), ran(ran) {}
    void follow() override { ++followed; }
    void run(AllocationFrame&, const std::function<void()>& op) override {
      ++ran;
      op();
    }
    std::atomic<int>&followed, &ran;
  };
  std::atomic<int> followed = 0, ran = 0, made = 0;
  ExchangeLane lane(std::make_unique<Line>(followed, ran));
  lane.start([] { throw std::runtime_error("no memory"); }, nullptr, 0);
  lane.start([&] { ++made; }, nullptr, 0);
  EXPECT_TRUE(lane.wait_for_all());
  EXPECT_EQ(made, 0);
  EXPECT_EQ(followed, 2);
  EXPECT_EQ(ran, 2);
}

}  // namespace
}  // namespace plimsoll
