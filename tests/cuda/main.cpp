// Runs the tests of the device. Its exit code tells tests that passed from tests that were skipped because there is no
// device, which ctest (SKIP_RETURN_CODE) and scripts/gpu-check-run.py then report as skipped.
#include <gtest/gtest.h>

#include "cuda/needs_gpu.h"

int main(int count, char** arguments) {
  constexpr int kSkipped = 77;
  ::testing::InitGoogleTest(&count, arguments);
  const int failed = RUN_ALL_TESTS();
  const ::testing::UnitTest& tests = *::testing::UnitTest::GetInstance();
  return failed == 0 && tests.skipped_test_count() > 0 && !plimsoll::has_gpu() ? kSkipped : failed;
}
