// Separates the cache of measurements (XDG_CACHE_HOME/plimsoll) of a test program from the user's: plans depend on the
// op times in it. Runs of tests are not listed by the user's `plimsoll monitor`. Each test begins without op times and
// rates; the speeds of matmuls stay. All times are those of a machine with stated rates, so that plans are the same on
// every processor and under any load.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "stated_machine.h"

namespace {

class PrivateCache : public ::testing::EmptyTestEventListener {
 public:
  PrivateCache() {
    std::string pattern = (std::filesystem::temp_directory_path() / "plimsoll-cache-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    folder_ = pattern;
    set_folders();
  }

  // A test may have set the variable for itself.
  void OnTestStart(const ::testing::TestInfo&) override {
    set_folders();
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "plimsoll", ignored))
      if (!entry.path().filename().string().starts_with("products")) std::filesystem::remove_all(entry.path(), ignored);
  }

  void OnTestProgramEnd(const ::testing::UnitTest&) override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

 private:
  void set_folders() const {
    ::setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
    ::setenv("PLIMSOLL_RUNTIME_DIR", (folder_ / "runs").c_str(), 1);
  }

  std::filesystem::path folder_;
  // PLIMSOLL_TESTS_MEASURE set: the times are real, which shows what the tests would depend on without a stand-in.
  plimsoll::MeasuringMachine real_;
  plimsoll::StatedMachine stated_;
  plimsoll::MeasuringMachineScope scope_{::getenv("PLIMSOLL_TESTS_MEASURE") ? real_ : stated_};
};

// Before main(): GoogleTest owns the listener from here on.
[[maybe_unused]] const bool kRegistered = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new PrivateCache);
  return true;
}();

}  // namespace
