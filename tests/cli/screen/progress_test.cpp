#include "cli/screen/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>

#include "base/text.h"
#include "cli/screen/terminal.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ProgressTest : public ::testing::Test {
 protected:
  ProgressOptions terminal(int width = 100) {
    width_ = width;
    return {.out = &out_, .terminal = true, .width = [this] { return width_; }, .now = [this] { return now_; }};
  }
  ProgressOptions plain(double line_seconds) {
    return {.out = &out_, .now = [this] { return now_; }, .line_seconds = line_seconds};
  }
  /// Returns the text written since the last call.
  std::string fresh() {
    std::string text = out_.str();
    out_.str("");
    return text;
  }
  /// Returns it without the sequence that clears the line.
  std::string drawn() {
    std::string text = fresh();
    EXPECT_THAT(text, StartsWith("\r\x1b[K"));
    return text.substr(std::min<size_t>(text.size(), 4));
  }

  std::ostringstream out_;
  double now_ = 1000;
  int width_ = 100;
};

TEST_F(ProgressTest, ATerminalShowsBarPercentCountFieldsAndTimeLeft) {
  Progress progress("train", 1000, terminal());
  now_ += 21;
  progress.update(420, {"loss 3.21", "memory 7.42 / 8.00 GiB"});
  EXPECT_EQ(drawn(),
            "train  [===========>               ]   42%   420/1000  loss 3.21  memory 7.42 / 8.00 GiB  0:29 left");
}

TEST_F(ProgressTest, ATerminalIsRedrawnAtMostTenTimesASecond) {
  Progress progress("train", 1000, terminal());
  int redraws = 0;
  for (int step = 1; step <= 1000; ++step) {  // five seconds
    now_ += 0.005;
    progress.update(step, {});
    if (!fresh().empty()) ++redraws;
  }
  EXPECT_GE(redraws, 45);
  EXPECT_LE(redraws, 51);
}

TEST_F(ProgressTest, TheLastStepIsShownAndEndsWithANewline) {
  Progress progress("train", 10, terminal());
  progress.update(1, {"loss 9"});
  fresh();
  progress.update(10, {"loss 1"});
  EXPECT_EQ(fresh(), "");  // too early to redraw
  now_ += 75;
  progress.finish();
  std::string last = drawn();
  EXPECT_THAT(last, AllOf(HasSubstr("[==============================]  100%  10/10  loss 1  in 1:15"), EndsWith("\n")));
  progress.finish();
  progress.update(11, {});
  EXPECT_EQ(fresh(), "");
}

TEST_F(ProgressTest, TheDestructorEndsTheLine) {
  std::optional<Progress> progress;
  progress.emplace("train", 10, terminal());
  progress->update(3, {});
  progress.reset();
  EXPECT_THAT(fresh(), EndsWith("\n"));
  progress.emplace("train", 10, terminal());
  progress.reset();
  EXPECT_EQ(fresh(), "");  // nothing was ever shown
}

TEST_F(ProgressTest, TheLineFitsEveryWidth) {
  Progress progress("train größe", 1000, terminal());
  for (width_ = 160; width_ >= 1; --width_) {
    now_ += 1;
    progress.update(500, {"loss 3.21", "1.20 M tokens/s", "memory 7.42 / 8.00 GiB"});
    std::string line = drawn();
    EXPECT_LE(display_width(line), static_cast<size_t>(std::max(width_ - 1, 1)));
    EXPECT_EQ(line.find('\n'), std::string::npos);
    if (width_ >= 40) {
      EXPECT_THAT(line, AllOf(HasSubstr("50%   500/1000"), HasSubstr(" left"))) << width_;
    }
    if (width_ >= 60) {
      EXPECT_THAT(line, HasSubstr("loss 3.21")) << width_;
    }
  }
}

TEST_F(ProgressTest, ANarrowTerminalDropsTheBarFirstAndThenTheLastFields) {
  Progress progress("train", 100, terminal(70));
  std::vector<std::string> fields = {"loss 3.21", "memory 7.42 / 8.00 GiB"};
  now_ += 50;
  progress.update(50, fields);
  EXPECT_EQ(drawn(), "train   50%   50/100  loss 3.21  memory 7.42 / 8.00 GiB  0:50 left");
  width_ = 60;
  now_ += 1;
  progress.update(51, fields);
  EXPECT_EQ(drawn(), "train  [======>      ]   51%   51/100  loss 3.21  0:49 left");
  width_ = 12;
  now_ += 1;
  progress.update(52, fields);
  EXPECT_EQ(drawn(), "train   52%");
}

TEST_F(ProgressTest, TimeLeftDoesNotCountTheStepsOfTheRunResumed) {
  Progress progress("train", 1000, terminal(), 900);
  progress.update(900, {});
  EXPECT_THAT(drawn(), Not(HasSubstr("left")));
  now_ += 10;
  progress.update(910, {});
  EXPECT_THAT(drawn(), HasSubstr("1:30 left"));
}

TEST_F(ProgressTest, WithoutATotalThereIsNoBar) {
  Progress progress("index", 0, terminal());
  now_ += 61;
  progress.update(12345, {"3 files"});
  EXPECT_EQ(drawn(), "index  12345  3 files  1:01");
}

TEST_F(ProgressTest, MoreStepsThanAnnouncedDoNotOverflowTheBar) {
  Progress progress("train", 10, terminal());
  now_ += 1;
  progress.update(15, {});
  EXPECT_THAT(drawn(), AllOf(HasSubstr("=]  100%  15/10"), HasSubstr("0:00 left")));
}

TEST_F(ProgressTest, ANoteStandsOnALineOfItsOwn) {
  Progress progress("train", 10, terminal());
  progress.note("before");
  EXPECT_EQ(fresh(), "before\n");
  progress.update(5, {});
  std::string line = fresh();
  progress.note("checkpoint written");
  EXPECT_EQ(fresh(), "\r\x1b[Kcheckpoint written\n" + line);
  progress.finish();
  fresh();
  progress.note("after");
  EXPECT_EQ(fresh(), "after\n");
}

TEST_F(ProgressTest, ColorIsTheTitleInBold) {
  ProgressOptions options = terminal();
  options.color = true;
  Progress progress("train", 10, options);
  progress.update(5, {"x"});
  EXPECT_THAT(drawn(), StartsWith("\x1b[1mtrain\x1b[0m  ["));
}

TEST_F(ProgressTest, ControlCharactersOfFieldsAreHidden) {
  Progress progress("tr\x1b[31main", 10, terminal());
  progress.update(5, {"bad\nfield\x1b[2J"});
  EXPECT_THAT(drawn(), AllOf(HasSubstr("tr?[31main"), HasSubstr("bad?field?[2J"), Not(HasSubstr("\x1b"))));
}

TEST_F(ProgressTest, ElsewhereLinesArePlainAndNotTooMany) {
  Progress progress("train", 1000, plain(10));
  now_ += 1;
  progress.update(1, {"loss 9.00"});
  EXPECT_EQ(fresh(), "train    0%     1/1000  loss 9.00  16:39 left\n");
  for (int step = 2; step <= 10; ++step) {
    now_ += 1;
    progress.update(step, {});
    EXPECT_EQ(fresh(), "") << step;
  }
  now_ += 1;
  progress.update(11, {});
  EXPECT_THAT(fresh(), HasSubstr("11/1000"));
  progress.note("a note");
  EXPECT_EQ(fresh(), "a note\n");
  progress.update(12, {});
  progress.finish();
  EXPECT_EQ(fresh(), "train    1%    12/1000  in 0:11\n");
}

TEST_F(ProgressTest, ElsewhereNothingIsPrintedTwice) {
  Progress progress("train", 2, plain(0));
  progress.update(1, {});
  progress.update(2, {});
  fresh();
  progress.finish();
  EXPECT_EQ(fresh(), "");
}

TEST_F(ProgressTest, AStreamAndAClockAreNeeded) {
  EXPECT_THROW(Progress("x", 1, {}), InternalError);
  EXPECT_THROW(Progress("x", 1, {.out = &out_}), InternalError);
}

TEST(FormatDuration, ShowsHoursAndDaysOnlyWhereThereAreAny) {
  EXPECT_EQ(format_duration(0), "0:00");
  EXPECT_EQ(format_duration(7.4), "0:07");
  EXPECT_EQ(format_duration(753), "12:33");
  EXPECT_EQ(format_duration(11045), "3:04:05");
  EXPECT_EQ(format_duration(2 * 86400 + 11045), "2 d 03:04:05");
  EXPECT_EQ(format_duration(-5), "0:00");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "very long");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::quiet_NaN()), "very long");
}

/// A terminal made for the test; the environment is restored afterwards.
class TerminalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"TERM", "NO_COLOR"}) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value ? std::optional<std::string>(value) : std::nullopt);
    }
    ::setenv("TERM", "xterm", 1);
    ::unsetenv("NO_COLOR");
    master_ = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0) GTEST_SKIP() << "no pseudo terminals here";
    terminal_ = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    ASSERT_GE(terminal_, 0);
    ASSERT_EQ(::pipe(pipe_), 0);
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) value ? ::setenv(name, value->c_str(), 1) : ::unsetenv(name);
    for (int descriptor : {master_, terminal_, pipe_[0], pipe_[1]}) {
      if (descriptor >= 0) ::close(descriptor);
    }
  }

  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
  int master_ = -1, terminal_ = -1, pipe_[2] = {-1, -1};
};

TEST_F(TerminalTest, ColorNeedsATerminalThatIsNotDumb) {
  EXPECT_TRUE(is_terminal(terminal_));
  EXPECT_TRUE(color_allowed(terminal_));
  EXPECT_FALSE(is_terminal(pipe_[1]));
  EXPECT_FALSE(color_allowed(pipe_[1]));
  ::setenv("TERM", "dumb", 1);
  EXPECT_FALSE(is_terminal(terminal_));
  EXPECT_FALSE(color_allowed(terminal_));
  ::unsetenv("TERM");
  EXPECT_FALSE(color_allowed(terminal_));
}

TEST_F(TerminalTest, NoColorForbidsColorButNotRedrawing) {
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(color_allowed(terminal_));
  EXPECT_TRUE(is_terminal(terminal_));
  ::setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(color_allowed(terminal_));
}

TEST_F(TerminalTest, TheWidthIsTheTerminalsOrEighty) {
  winsize size{};
  size.ws_col = 133;
  size.ws_row = 40;
  ASSERT_EQ(::ioctl(terminal_, TIOCSWINSZ, &size), 0);
  EXPECT_EQ(terminal_width(terminal_), 133);
  size.ws_col = 0;
  ASSERT_EQ(::ioctl(terminal_, TIOCSWINSZ, &size), 0);
  EXPECT_EQ(terminal_width(terminal_), 80);
  EXPECT_EQ(terminal_width(pipe_[1]), 80);
}

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
