// Tests the note for a job whose steps are not those for which its learning rate was chosen.
#include <gmock/gmock.h>

#include "plimsoll/error.h"
#include "plimsoll/job.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> notes(const std::vector<std::string>& overrides) {
  return parse_job("{data.files: a.txt, batch_size: 32, optimizer: {learning_rate: 3.0e-4, reference_batch_size: 32}}",
                   "job.yaml", "", overrides)
      .notes;
}

TEST(LearningRateNote, SaysWhatTheRulesMakeOfIt) {
  EXPECT_THAT(notes({}), IsEmpty());
  EXPECT_THAT(
      notes({"batch_size=128"}),
      ElementsAre(AllOf(HasSubstr("learning_rate 0.0003 is for steps of 32"),
                        HasSubstr("the steps of this job have 128"), HasSubstr("square-root rule"),
                        HasSubstr("optimizer.learning_rate=0.0006"), HasSubstr("optimizer.reference_batch_size=128"))));
  EXPECT_THAT(notes({"batch_size=8", "optimizer.name=sgd"}),
              ElementsAre(AllOf(HasSubstr("linear rule"), HasSubstr("optimizer.learning_rate=7.5e-05"))));
  // The note disappears once its advice is followed, and the division of a step does not matter.
  EXPECT_THAT(notes({"batch_size=128", "optimizer.reference_batch_size=128"}), IsEmpty());
  EXPECT_THAT(notes({"micro_batch_size=4"}), IsEmpty());
  EXPECT_THAT(notes({"batch_size=128", "optimizer.reference_batch_size=none"}), IsEmpty());
  EXPECT_EQ(parse_job("data.files: a.txt", "job.yaml", "", {"batch_size=128"}).notes.size(), 0u);
}

TEST(LearningRateNote, ChangesNothing) {
  const Job job =
      parse_job("{data.files: a.txt, optimizer.reference_batch_size: 4}", "job.yaml", "", {"batch_size=64"});
  EXPECT_EQ(job.optimizer.learning_rate, OptimizerConfig{}.learning_rate);
  EXPECT_THROW(parse_job("{data.files: a.txt, optimizer.reference_batch_size: 0}", "job.yaml", ""), UserError);
}

}  // namespace
}  // namespace plimsoll
