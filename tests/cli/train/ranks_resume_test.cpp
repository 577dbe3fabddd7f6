// Tests that a checkpoint of some ranks continues with any other number of ranks.
#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

class RanksResume : public CliTest {
 protected:
  RanksResume() {
    put_tiny_job();
    // Wide enough for slices on eight ranks: at least 4096 elements on each.
    put("wide.yaml",
        "seed: 4\nthreads: 1\nbatch_size: 8\nmicro_batch_size: 1\nstrategy: zero3\neval_batches: 1\n"
        "model: {hidden_size: 128, num_layers: 1, num_heads: 2, intermediate_size: 256, dropout: 0.1}\n"
        "scheduler: {name: constant}\n"
        "data: {files: [corpus.txt], tokenizer: bytes, sequence_length: 16, validation_fraction: 0.1}\n");
  }

  /// Trains up to step `steps` with this number of ranks; returns the losses of the steps of this run.
  std::vector<double> train(const std::string& directory, int ranks, int steps) const {
    const Outcome outcome =
        run({"train", "wide.yaml", "devices=" + std::to_string(ranks), "max_steps=" + std::to_string(steps),
             "checkpoint.directory=" + directory, "--json", "report.json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.exit_code == 0 ? json::parse(get("report.json"))["losses"].get<std::vector<double>>()
                                  : std::vector<double>();
  }

  /// Returns the tensors of a checkpoint: the file without its header, whose length is its first eight bytes.
  std::string tensors_of(const std::string& file) const {
    const std::string bytes = get(file);
    uint64_t header = 0;
    if (bytes.size() < sizeof header) return "";
    std::copy_n(bytes.data(), sizeof header, reinterpret_cast<char*>(&header));
    return bytes.substr(sizeof header + header);
  }
};

TEST_F(RanksResume, FourRanksEightRanksAndOneMakeTheWeightsOfOne) {
  std::vector<double> losses = train("several", 4, 2);
  for (const auto& [ranks, steps] : {std::pair{8, 4}, {1, 6}}) {
    const std::vector<double> more = train("several", ranks, steps);
    losses.insert(losses.end(), more.begin(), more.end());
  }
  EXPECT_EQ(train("alone", 1, 6), losses);
  EXPECT_EQ(losses.size(), 6u);
  const std::string alone = tensors_of("alone/step-00000006.safetensors");
  EXPECT_GT(alone.size(), 100'000u);
  EXPECT_TRUE(tensors_of("several/step-00000006.safetensors") == alone);
}

// The first rank identifies the data, and all ranks compare its facts.
TEST_F(RanksResume, OtherDataAreRefusedOnceOrAllowed) {
  EXPECT_EQ(train("run", 2, 2).size(), 2u);
  put("corpus.txt", get("corpus.txt") + "more\n");
  const Arguments more = {"train", "wide.yaml", "devices=2", "max_steps=3", "checkpoint.directory=run"};
  const Outcome refused = run(more);
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("data.files: corpus.txt had "),
                                 HasSubstr("checkpoint.allow_other_data: true"), ::testing::Not(HasSubstr("rank 1"))));
  Arguments allowed = more;
  allowed.push_back("checkpoint.allow_other_data=true");
  const Outcome gone_on = run(allowed);
  EXPECT_EQ(gone_on.exit_code, 0) << gone_on.err;
  EXPECT_THAT(gone_on.err, HasSubstr("the run goes on with other data"));
}

}  // namespace
}  // namespace plimsoll::cli_testing
