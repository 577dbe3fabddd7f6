// Tests that random damage to a valid job file gives a Job or a UserError, and no other result.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "plimsoll/error.h"
#include "plimsoll/job.h"

namespace plimsoll {
namespace {

const std::string kSound = R"(# A comment
model: {type: decoder, hidden_size: 128, num_heads: 4}
data:
  files:
    - a.txt
    - "b.txt"
  sequence_length: 64
optimizer: &o
  name: adamw
  betas: [0.9, 0.95]
scheduler.name: cosine
precision: bf16-mixed
batch_size: 16
gradient_accumulation_steps: {0: 4, 4: 2}
memory_budget: 2 GiB
seed: 7
)";

class Damage {
 public:
  explicit Damage(unsigned seed) : random_(seed) {}

  std::string to(std::string text) {
    for (size_t times = 1 + below(4); times > 0; --times) {
      const size_t at = below(text.size() + 1);
      const size_t count = below(std::min<size_t>(30, text.size() - at) + 1);
      switch (below(6)) {
        case 0:
          text.insert(at, pieces()[below(pieces().size())]);
          break;
        case 1:
          text.erase(at, count);
          break;
        case 2:
          text.insert(below(text.size() + 1), text.substr(at, count));
          break;
        case 3:
          text.insert(at, 1, static_cast<char>(below(256)));
          break;
        case 4:
          text.resize(at);
          break;
        default:
          text.replace(at, count, pieces()[below(pieces().size())]);
      }
    }
    return text;
  }

  size_t below(size_t end) { return random_() % end; }

 private:
  static const std::vector<std::string>& pieces() {
    static const std::vector<std::string> all = {"[",
                                                 "]",
                                                 "{",
                                                 "}",
                                                 ":",
                                                 ": ",
                                                 "- ",
                                                 "\n",
                                                 "  ",
                                                 "\t",
                                                 "&a ",
                                                 "*a",
                                                 "*o",
                                                 "!",
                                                 "!!int ",
                                                 "!2",
                                                 "|",
                                                 ">",
                                                 "'",
                                                 "\"",
                                                 "%",
                                                 "%YAML 1.2\n",
                                                 "---\n",
                                                 "...\n",
                                                 "?",
                                                 "? ",
                                                 ",",
                                                 "#",
                                                 "~",
                                                 "null",
                                                 "<<: *o\n",
                                                 "-1",
                                                 "1e400",
                                                 "nan",
                                                 "0",
                                                 "99999999999999999999",
                                                 "\xEF\xBB\xBF",
                                                 "\xFE\xFF",
                                                 std::string(1, '\0'),
                                                 "\\",
                                                 "\"\\x",
                                                 "model:",
                                                 "seed: 1\n"};
    return all;
  }

  std::mt19937 random_;
};

TEST(JobMutations, GiveAJobOrAUserError) {
  int accepted = 0, refused = 0;
  for (unsigned seed = 0; seed < 8000; ++seed) {
    Damage damage(seed);
    const bool in_override = damage.below(4) == 0;
    const std::string text = in_override ? kSound : damage.to(kSound);
    std::vector<std::string> overrides;
    if (in_override) overrides.push_back(damage.to("data.files=[a.txt, b.txt]"));
    try {
      const Job job = parse_job(text, "job.yaml", "", overrides);
      ++accepted;
      // An accepted job keeps the promises on which later code depends.
      ASSERT_FALSE(job.data.files.empty()) << text;
      ASSERT_TRUE(job.batch_size && *job.batch_size > 0) << text;
      ASSERT_EQ(job.micro_batch_size.has_value(), job.gradient_accumulation_steps.has_value()) << text;
      if (job.micro_batch_size) {
        const int64_t last = last_micro_batch_of(job);
        ASSERT_EQ(*job.micro_batch_size * job.gradient_accumulation_steps->at(0) -
                      (last > 0 ? *job.micro_batch_size - last : 0),
                  *job.batch_size)
            << text;
      }
      ASSERT_GT(job.model.decoder.num_heads, 0) << text;
    } catch (const UserError& error) {
      ++refused;
      const std::string message = error.what();
      ASSERT_TRUE(message.starts_with("job.yaml") || message.starts_with("command line: ")) << message;
      ASSERT_LT(message.size(), 1200u) << message;
    }
  }
  // The damage is neither all harmless nor all fatal, or this tests nothing.
  EXPECT_GT(accepted, 500);
  EXPECT_GT(refused, 2000);
}

}  // namespace
}  // namespace plimsoll
