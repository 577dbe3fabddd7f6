// The kernel that was measured to be faster is used, stored and kept; text and files from outside do no harm.
#include "ops/kernel_choice.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/measurement.h"
#include "ops/cpu_capability.h"
#include "plimsoll/error.h"
#include "plimsoll/machine.h"

namespace plimsoll::ops {
namespace {

/// A cache folder of its own while it lives.
class KernelChoices : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* before = std::getenv("XDG_CACHE_HOME")) before_ = before;
    folder_ = std::filesystem::temp_directory_path() / ("plimsoll-kernels-" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    ::setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    before_.empty() ? ::unsetenv("XDG_CACHE_HOME") : ::setenv("XDG_CACHE_HOME", before_.c_str(), 1);
  }

  /// Returns the choice of a site whose kernels take these times on a clock of the test's.
  bool second(const std::string& site, double first_ms, double second_ms) {
    runs_ = 0;
    const auto run = [&](bool other) {
      ++runs_;
      machine_.clock += (other ? second_ms : first_ms) / 1e3;
    };
    const MeasuringMachineScope scope(machine_);
    return uses_second_kernel({.site = site, .first = "usual", .second = "other", .run = run});
  }

  std::filesystem::path file() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_))
      if (entry.path().extension() == ".json") return entry.path();
    return {};
  }

  std::string before_;
  std::filesystem::path folder_;
  int runs_ = 0;
  struct : MeasuringMachine {
    double now() override { return clock; }
    double clock = 0;  // seconds
  } machine_;
};

TEST_F(KernelChoices, TheFasterKernelIsUsedMeasuredOnce) {
  EXPECT_TRUE(second("test.a", 8, 2));
  EXPECT_GT(runs_, 0);
  EXPECT_TRUE(second("test.a", 2, 8));
  EXPECT_EQ(runs_, 0);
  EXPECT_FALSE(second("test.b", 2, 8));
  EXPECT_NE(kernels_text().find("test.a=other,test.b=usual"), std::string::npos);
}

TEST_F(KernelChoices, ASmallDifferenceKeepsTheUsualKernel) {
  EXPECT_FALSE(second("test.c", 5, 4.4));
}

TEST_F(KernelChoices, AnotherProcessReadsTheStoredChoice) {
  EXPECT_TRUE(second("test.d", 8, 2));
  std::ifstream stream(file());
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  for (size_t at; (at = text.find("test.d")) != std::string::npos;) text.replace(at, 6, "test.e");
  std::ofstream(file()) << text;
  EXPECT_TRUE(second("test.e", 2, 8));
  EXPECT_EQ(runs_, 0);
}

TEST_F(KernelChoices, ADamagedFileOrAnotherMachinesIsMeasuredAnew) {
  EXPECT_TRUE(second("test.f", 8, 2));
  const std::filesystem::path known = file();
  const std::string sites = R"("sites": {"test.gN": {"kernel": "other", "seconds": {"usual": 1, "other": 2}}})",
                    here = "{" + nlohmann::json("machine").dump() + ": " + nlohmann::json(machine_name()).dump() + ", ";
  int number = 0;
  for (const std::string text : {std::string(), std::string("{"), std::string("[]"), std::string(R"({"machine": 3})"),
                                 "{" + sites + "}", R"({"machine": "another", )" + sites + "}", here + R"("sites": 7})",
                                 here + R"("sites": {"test.gN": {"kernel": "third"}}})",
                                 here + R"("sites": {"test.gN": {"kernel": "other", "seconds": [1]}}})"}) {
    const std::string site = "test.g" + std::to_string(++number);
    std::string written = text;
    if (const size_t at = written.find("test.gN"); at != std::string::npos) written.replace(at, 7, site);
    std::ofstream(known) << written;
    EXPECT_FALSE(second(site, 2, 8)) << written;
    EXPECT_GT(runs_, 0) << written;
  }
  // The same text with the machine's name is read.
  std::string good = here + sites + "}";
  good.replace(good.find("test.gN"), 7, "test.g0");
  std::ofstream(known) << good;
  EXPECT_TRUE(second("test.g0", 2, 8));
  EXPECT_EQ(runs_, 0);
}

TEST_F(KernelChoices, ARunKeepsTheKernelItBeganWith) {
  keep_kernels("test.h=other,test.i=of another version,test.j=usual");
  EXPECT_TRUE(second("test.h", 2, 8));
  EXPECT_EQ(runs_, 0);
  EXPECT_FALSE(second("test.i", 2, 8));
  EXPECT_GT(runs_, 0);
  EXPECT_FALSE(second("test.j", 8, 2));
  EXPECT_EQ(runs_, 0);
  EXPECT_TRUE(second("test.k", 8, 2));
  keep_kernels("test.k=usual");  // chosen before, and replaced
  EXPECT_FALSE(second("test.k", 8, 2));
  EXPECT_EQ(runs_, 0);
  keep_kernels("no such form");  // of another version: no error
  keep_kernels("");
}

// PLIMSOLL_KERNELS may set what doctor shows.
TEST(KernelSites, EveryChoiceHasItsSite) {
  for (const KernelChoice& choice : kernel_choices()) {
    if (choice.op.starts_with("test.")) continue;
    const auto* const site = std::ranges::find(kKernelSites, choice.op, &KernelSite::site);
    ASSERT_NE(site, kKernelSites.end()) << choice.op;
    EXPECT_TRUE(choice.kernel == site->kernel || choice.kernel == site->other) << choice.op << " " << choice.kernel;
  }
}

TEST(KernelsText, IsReadOrRefused) {
  EXPECT_EQ(kernels_of("a.b=c,d=e").at("d"), "e");
  EXPECT_TRUE(kernels_of("").empty());
  for (const char* wrong : {"a", "a=", "=b", "a=b,c", ",", "a=b,,c=d"})
    EXPECT_THROW(kernels_of(wrong), UserError) << wrong;
}

}  // namespace
}  // namespace plimsoll::ops
