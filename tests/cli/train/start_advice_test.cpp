// Tests a start for which the machine has less memory than the job's budget: changes of the job that would fit follow.
#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class StartAdvice : public CliTest {};

// Activations of a pinned micro batch that no machine has. The end of the search depends on how busy this one is.
TEST_F(StartAdvice, AMachineWithLessMemoryThanTheBudgetIsOfferedChanges) {
  put("huge.yaml",
      "memory_budget: 4000GiB\n"
      "max_steps: 2\n"
      "batch_size: 262144\n"
      "micro_batch_size: 262144\n"
      "gradient_checkpointing: false\n"
      "precision: 32-true\n"
      "model: {hidden_size: 64, num_layers: 4, num_heads: 2, vocab_size: 256}\n"
      "data: {type: synthetic, sequence_length: 512}\n");
  const Outcome outcome = run({"train", "huge.yaml"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("the job needs at least "));
  EXPECT_THAT(outcome.out, AnyOf(HasSubstr("Changes that would fit"), HasSubstr("The search for changes that fit")));
  // A change is planned for the memory that there is, so it is typed with that budget.
  EXPECT_THAT(outcome.out, HasSubstr("memory_budget="));
}

}  // namespace
}  // namespace plimsoll::cli_testing
