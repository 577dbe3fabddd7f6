// Tests plan --what-if: its time limit, and its results if it ends early.
#include <signal.h>

#include <array>

#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class WhatIfCommand : public CliTest {
 protected:
  WhatIfCommand() { put_tiny_job(); }

  static std::vector<std::string> changes_in(const json& list) {
    std::vector<std::string> changes;
    for (const json& each : list) changes.push_back(each["change"]);
    return changes;
  }
};

TEST_F(WhatIfCommand, PlansEveryChangeWhereThereIsTime) {
  const Outcome outcome =
      run({"plan", "job.yaml", "model.num_layers=4", "--what-if", "--what-if-seconds", "1000", "--json", "plan.json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("Smaller values of keys, each planned"), Not(HasSubstr("--what-if-seconds"))));
  const json plan = json::parse(get("plan.json"));
  EXPECT_TRUE(plan["what_if_not_planned"].empty());
  const auto changes = changes_in(plan["what_if"]);
  ASSERT_GE(changes.size(), 3u);
  EXPECT_EQ(changes.front(), "");
  // The unchanged job is not planned again: its row is its plan.
  EXPECT_EQ(plan["what_if"][0]["peak_bytes"], plan["peak_bytes"]);
  EXPECT_EQ(plan["what_if"][0]["parameters"], plan["parameters"]);
  EXPECT_EQ(plan["what_if"][0]["uncertainty"], plan["uncertainty"]);
  // Shown by number, although all halves were planned before any quarter.
  std::vector<std::string> numbers;
  for (size_t i = 1; i < changes.size(); ++i) numbers.push_back(changes[i].substr(0, changes[i].find('=')));
  const size_t planned = numbers.size();
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  EXPECT_LT(numbers.size(), planned);
  EXPECT_EQ(numbers.size(), std::set<std::string>(numbers.begin(), numbers.end()).size());
}

TEST_F(WhatIfCommand, AtTheLimitItShowsWhatItHas) {
  const json whole = json::parse(run({"plan", "job.yaml", "--what-if", "--json", "-"}).out);
  const Outcome outcome = run({"plan", "job.yaml", "--what-if", "--what-if-seconds", "0.001", "--json", "plan.json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json plan = json::parse(get("plan.json"));
  EXPECT_EQ(plan["what_if"].size() + plan["what_if_not_planned"].size(), whole["what_if"].size());
  ASSERT_GE(plan["what_if"].size(), 1u);
  ASSERT_GE(plan["what_if_not_planned"].size(), 1u);
  EXPECT_EQ(plan["what_if"][0], whole["what_if"][0]);
  std::string out = outcome.out;  // its lines are folded
  std::ranges::replace(out, '\n', ' ');
  out.erase(std::unique(out.begin(), out.end(), [](char a, char b) { return a == ' ' && b == ' '; }), out.end());
  EXPECT_THAT(out, AllOf(HasSubstr("Smaller values of keys, each planned"), HasSubstr(" were planned in 1.00 ms; "),
                         ContainsRegex("--what-if-seconds [0-9]+ allows more; not planned: "),
                         HasSubstr(plan["what_if_not_planned"][0].get<std::string>())));
  expect_refusal(run({"plan", "job.yaml", "--what-if-seconds", "3"}), 2, HasSubstr("--what-if"));
  expect_refusal(run({"plan", "job.yaml", "--what-if", "--what-if-seconds", "0"}), 2, HasSubstr("--what-if-seconds"));
}

// A terminal as standard error, and the text drawn on it.
class Terminal {
 public:
  Terminal() : master_(::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)) {
    std::array<char, 100> name{};
    if (master_ >= 0 && ::grantpt(master_) == 0 && ::unlockpt(master_) == 0 &&
        ::ptsname_r(master_, name.data(), name.size()) == 0)
      name_ = name.data();
    if (!name_.empty())
      slave_ = ::open(name_.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC);  // nothing hangs up before the end
  }
  ~Terminal() {
    ::close(slave_);
    ::close(master_);
  }
  bool is_there() const { return slave_ >= 0; }
  void become_standard_error() const {
    ::setenv("TERM", "xterm", 1);
    ::dup2(slave_, STDERR_FILENO);
  }
  const std::string& text() {
    std::array<char, 4096> bytes{};
    for (ssize_t count = 0; (count = ::read(master_, bytes.data(), bytes.size())) > 0;)
      text_.append(bytes.data(), static_cast<size_t>(count));
    return text_;
  }

 private:
  int master_, slave_ = -1;
  std::string name_, text_;
};

// A job whose plan has many schedules, each fast: it ends within one.
TEST_F(WhatIfCommand, InterruptedInTheMiddleOfAPlanItShowsWhatItHas) {
  Terminal terminal;
  if (!terminal.is_there()) GTEST_SKIP() << "no pseudo terminals here";
  put("large.yaml",
      "batch_size: 64\n"
      "precision: bf16-mixed\n"
      "optimizer: {name: adamw}\n"
      "model: {hidden_size: 2048, num_layers: 8, num_heads: 16, vocab_size: 32000}\n"
      "data: {type: synthetic, sequence_length: 2048}\n");
  const pid_t child = start({"plan", "large.yaml", "--gpu", "rtx4090", "host_memory_budget=64GiB", "--what-if",
                             "--what-if-seconds", "100000", "--json", "plan.json"},
                            "out.txt", [&] { terminal.become_standard_error(); });
  // Redrawn each second, with the current plan and its progress.
  const auto drawn = [&] { return terminal.text().find(", schedule ") != std::string::npos; };
  ASSERT_TRUE(wait_for(child, drawn)) << terminal.text();
  EXPECT_THAT(terminal.text(),
              ContainsRegex("planning smaller values  [0-9]+ of [0-9]+ planned, now [a-z_.]+=[0-9]+, schedule "));
  ASSERT_EQ(::kill(child, SIGINT), 0);
  const Outcome outcome = finish(child);
  EXPECT_EQ(outcome.signal, SIGINT);
  EXPECT_THAT(terminal.text(),
              HasSubstr("stopping; the changes planned so far follow; press Ctrl-C again to stop immediately\r\n"));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Smaller values of keys, each planned"),
                                 HasSubstr(" were planned before the interrupt; not planned: ")));
  const json plan = json::parse(get("plan.json"));
  EXPECT_GE(plan["what_if"].size(), 1u);
  EXPECT_GE(plan["what_if_not_planned"].size(), 1u);
}

}  // namespace
}  // namespace plimsoll::cli_testing
