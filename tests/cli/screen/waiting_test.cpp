#include "cli/screen/waiting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <sstream>
#include <string>

namespace plimsoll {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A stream on whose text another thread can wait.
class WatchedBuffer : public std::stringbuf {
 public:
  int sync() override {
    const std::lock_guard lock(mutex_);
    text_ += str();
    str("");
    flushed_.notify_all();
    return 0;
  }
  std::string text_when_there_is_any() {
    std::unique_lock lock(mutex_);
    flushed_.wait(lock, [this] { return !text_.empty(); });
    return text_;
  }
  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable flushed_;
  std::string text_;
};

ProgressOptions options_on(std::ostream& out, bool terminal) {
  ProgressOptions options;
  options.out = &out;
  options.terminal = terminal;
  options.now = [] { return 7.0; };
  return options;
}

TEST(Waiting, ATerminalsLineIsDrawnAndTakenAway) {
  WatchedBuffer buffer;
  std::ostream out(&buffer);
  {
    const Waiting waiting("planning", options_on(out, true), 0);
    EXPECT_THAT(buffer.text_when_there_is_any(), StartsWith("\r\x1b[Kplanning  0:00"));
  }
  EXPECT_THAT(buffer.text(), EndsWith("\r\x1b[K"));
}

TEST(Waiting, ElsewhereItIsAPlainLine) {
  WatchedBuffer buffer;
  std::ostream out(&buffer);
  {
    const Waiting waiting("planning\x1b[2J", options_on(out, false), 0);
    buffer.text_when_there_is_any();
  }
  EXPECT_THAT(buffer.text(), StartsWith("planning"));
  EXPECT_THAT(buffer.text(), EndsWith("0:00\n"));
  EXPECT_EQ(buffer.text().find('\x1b'), std::string::npos);
}

// The time is shown meanwhile, redrawn each second.
TEST(Waiting, SaysHowFarItIs) {
  for (const bool terminal : {false, true}) {
    WatchedBuffer buffer;
    std::ostream out(&buffer);
    {
      Waiting waiting("what if", options_on(out, terminal), 0.05);
      waiting.say("2 of 9 planned\n, schedule 7");
      EXPECT_THAT(buffer.text_when_there_is_any(), HasSubstr("what if  2 of 9 planned?, schedule 7  0:00"));
    }
  }
}

TEST(Waiting, ALongLineKeepsItsTime) {
  WatchedBuffer buffer;
  std::ostream out(&buffer);
  ProgressOptions options = options_on(out, true);
  options.width = [] { return 20; };
  Waiting waiting("what if", options, 0.05);
  waiting.say("much more than fits beside it");
  EXPECT_EQ(buffer.text_when_there_is_any(), "\r\x1b[Kwhat if  much  0:00");
}

TEST(Waiting, WhatIsDoneSoonSaysNothing) {
  WatchedBuffer buffer;
  std::ostream out(&buffer);
  for (const bool terminal : {false, true}) const Waiting waiting("planning", options_on(out, terminal), 3600);
  EXPECT_EQ(buffer.text(), "");
}

}  // namespace
}  // namespace plimsoll
