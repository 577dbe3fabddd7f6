#include "report/metrics_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include "plimsoll/error.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class MetricsLogTest : public ::testing::Test {
 protected:
  std::string get() const { return get_file(path_); }
  void put(const std::string& text) const { put_file(path_, text); }
  template <typename Action>
  static std::string failure(Action&& action) {
    return refusal_of(action, UserError::Kind::failure);
  }

  const TempFolder temporary_;
  const fs::path folder_ = temporary_.path(), path_ = folder_ / "metrics.jsonl";
};

TEST_F(MetricsLogTest, WritesOneObjectALineInOrder) {
  MetricsLog log(path_);
  log.write(1, {{"loss", 3.25}, {"tokens", int64_t{1} << 40}, {"phase", "warm \"up\"\n"}, {"learning_rate", 3e-4}});
  log.write(2, {});
  EXPECT_EQ(
      get(),
      "{\"step\":1,\"loss\":3.25,\"tokens\":1099511627776,\"phase\":\"warm \\\"up\\\"\\n\",\"learning_rate\":0.0003}\n"
      "{\"step\":2}\n");
}

TEST_F(MetricsLogTest, NumbersThatAreNotFiniteAreNull) {
  MetricsLog log(path_);
  log.write(1,
            {{"loss", std::numeric_limits<double>::quiet_NaN()}, {"norm", -std::numeric_limits<double>::infinity()}});
  EXPECT_EQ(get(), "{\"step\":1,\"loss\":null,\"norm\":null}\n");
}

TEST_F(MetricsLogTest, BytesThatAreNotUtf8DoNotStopTheRun) {
  MetricsLog log(path_);
  log.write(1, {{"file", std::string("a\xff")}});
  EXPECT_EQ(get(), "{\"step\":1,\"file\":\"a\xef\xbf\xbd\"}\n");
}

TEST_F(MetricsLogTest, AppendsToWhatIsThere) {
  put("{\"step\":7}\n");
  MetricsLog(path_).write(1, {});
  EXPECT_EQ(get(), "{\"step\":7}\n{\"step\":1}\n");
}

TEST_F(MetricsLogTest, ALineWithoutItsEndDoesNotSwallowTheNext) {
  put("{\"step\":7}\n{\"step\":8,\"lo");
  MetricsLog(path_).write(9, {});
  EXPECT_EQ(get(), "{\"step\":7}\n{\"step\":8,\"lo\n{\"step\":9}\n");
}

TEST_F(MetricsLogTest, ResumingDropsTheStepsThatComeAgain) {
  put("{\"step\":1}\n{\"step\":2}\n{\"step\":2,\"eval\":1}\n{\"step\":3}\nnoise\n{\"step\":4}\n");
  MetricsLog log(path_, 3);
  log.write(3, {{"loss", 1.0}});
  EXPECT_EQ(get(), "{\"step\":1}\n{\"step\":2}\n{\"step\":2,\"eval\":1}\n{\"step\":3,\"loss\":1.0}\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(MetricsLogTest, ResumingKeepsEarlierRunsInTheSameFile) {
  put("{\"step\":1}\n{\"step\":50}\n{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  MetricsLog log(path_, 2);
  EXPECT_EQ(get(), "{\"step\":1}\n{\"step\":50}\n{\"step\":1}\n");
}

TEST_F(MetricsLogTest, ResumingDropsALineThatACrashCutShort) {
  put("{\"step\":1}\n{\"step\":2,\"lo");
  { MetricsLog log(path_, 5); }
  EXPECT_EQ(get(), "{\"step\":1}\n");
  put("{\"step\":1}\n{\"step\":2}");  // whole except for its end
  { MetricsLog log(path_, 5); }
  EXPECT_EQ(get(), "{\"step\":1}\n{\"step\":2}\n");
}

TEST_F(MetricsLogTest, ResumingLeavesAFileAloneThatNeedsNoChange) {
  std::string big;
  for (int step = 0; step < 20000; ++step) big += "{\"step\":" + std::to_string(step) + ",\"loss\":1.5}\n";
  put(big);
  { MetricsLog log(path_, 20000); }
  EXPECT_EQ(get(), big);
  { MetricsLog log(path_, 19999); }
  EXPECT_EQ(get(), big.substr(0, big.rfind("{\"step\":19999")));
  put("no JSON lines at all\nbut someone's notes");
  { MetricsLog log(path_, 0); }
  EXPECT_EQ(get(), "no JSON lines at all\nbut someone's notes\n");
}

TEST_F(MetricsLogTest, ResumingWithoutAFileMakesOne) {
  MetricsLog(path_, 3).write(3, {});
  EXPECT_EQ(get(), "{\"step\":3}\n");
}

TEST_F(MetricsLogTest, WhatCannotBeOpenedIsNamed) {
  constexpr auto usage = UserError::Kind::usage;
  EXPECT_THAT(refusal_of([&] { MetricsLog log(folder_ / "none" / "m.jsonl"); }, usage),
              AllOf(HasSubstr((folder_ / "none" / "m.jsonl").string()), HasSubstr("does not exist")));
  EXPECT_THAT(refusal_of([&] { MetricsLog log(folder_, 3); }, usage), HasSubstr("it is a folder"));
}

// A limit on the size of files replaces the full disk.
TEST_F(MetricsLogTest, AFullDiskLeavesWholeLines) {
  MetricsLog log(path_);
  log.write(1, {});
  auto previous = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small{20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message = failure([&] { log.write(2, {{"loss", 1.0}}); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, previous);
  EXPECT_THAT(message, AllOf(HasSubstr("cannot write " + path_.string()), HasSubstr("No space left")));
  EXPECT_EQ(get(), "{\"step\":1}\n");
  log.write(2, {});
  EXPECT_EQ(get(), "{\"step\":1}\n{\"step\":2}\n");
}

}  // namespace
}  // namespace plimsoll
