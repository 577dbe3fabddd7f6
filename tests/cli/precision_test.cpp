// Tests that `precision: auto` follows the matmul speeds measured on this machine, and that a slow fixed choice is
// reported.
#include <ctime>

#include "cli/cli_testing.h"
#include "ops/cpu_capability.h"
#include "ops/matmul_throughput.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class MeasuredProducts : public CliTest {
 protected:
  MeasuredProducts() {
    put_tiny_job();
    ::setenv("XDG_CACHE_HOME", folder().c_str(), 1);
    ::setenv("PLIMSOLL_16BIT_PRODUCTS", "libtorch", 1);
  }
  ~MeasuredProducts() override {
    ::unsetenv("XDG_CACHE_HOME");
    ::unsetenv("PLIMSOLL_16BIT_PRODUCTS");
  }

  /// Writes measurements in which libtorch's matmuls of 16 bits are `speed` times as fast as float32's.
  void measured(double speed) const {
    ops::MatmulThroughputs speeds;
    for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
      const double rate = dtype == DType::float32 ? 80e9 : 80e9 * speed;
      speeds.of(dtype) = {rate, rate, rate};
    }
    std::filesystem::create_directories(speeds_file().parent_path());
    std::ofstream(speeds_file()) << ops::products_text(speeds);
  }

  /// Returns the file of the measurement of a process with this environment.
  std::filesystem::path speeds_file() const {
    return folder() / "plimsoll" / ("products-" + instruction_masks_in_a_name() + ".json");
  }

  std::string precision_of(const Arguments& settings) const {
    Arguments words = {"plan", "job.yaml", "--json", "-"};
    words.insert(words.end(), settings.begin(), settings.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out)["choices"]["precision"];
  }
};

// With a size at which matmuls take most of the time.
const Arguments kWide = {"model.hidden_size=256", "data.sequence_length=64"};

TEST_F(MeasuredProducts, DecideWhatAutoTakes) {
  Arguments settings = kWide;
  settings.push_back("precision=auto");
  measured(4);
  EXPECT_EQ(precision_of(settings), "bf16-mixed");
  measured(0.05);
  EXPECT_EQ(precision_of(settings), "32-true");
}

TEST_F(MeasuredProducts, ThatAreSlowAreSaidBeforeTheStart) {
  for (const char* precision : {"bf16-mixed", "16-mixed"}) {
    Arguments plan = {"plan", "job.yaml", std::string("precision=") + precision},
              train = {"train", "job.yaml", "max_steps=1", std::string("precision=") + precision};
    plan.insert(plan.end(), kWide.begin(), kWide.end());
    train.insert(train.end(), kWide.begin(), kWide.end());
    const auto told = AllOf(HasSubstr(std::string("precision: ") + precision), HasSubstr("slow on this machine"),
                            HasSubstr("with precision: 32-true"));
    measured(0.05);
    EXPECT_THAT(run(plan).out, told);
    EXPECT_THAT(run(train).err, told);
    measured(4);
    EXPECT_THAT(run(plan).out, Not(HasSubstr("slow on this machine")));
  }
}

TEST_F(MeasuredProducts, AreMadeOnceAndKept) {
  ASSERT_EQ(run({"plan", "job.yaml"}).exit_code, 0);
  const std::string first = get_file(speeds_file());
  // A measurement whose tries did not agree, as other work on the machine may prevent, is kept for a day.
  EXPECT_TRUE(ops::products_of(first, std::time(nullptr)));
  ASSERT_EQ(run({"plan", "job.yaml"}).exit_code, 0);
  EXPECT_EQ(get_file(speeds_file()), first);
}

TEST_F(MeasuredProducts, AWrongVariableIsRefused) {
  ::setenv("PLIMSOLL_16BIT_PRODUCTS", "fast", 1);
  const Outcome outcome = run({"plan", "job.yaml", "precision=bf16-mixed"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("PLIMSOLL_16BIT_PRODUCTS is 'fast'"), HasSubstr("float32"), HasSubstr("libtorch")));
}

}  // namespace
}  // namespace plimsoll::cli_testing
