// Tests the message about ranks whose jobs differ.
#include "job/shared_keys.h"

#include <gtest/gtest.h>

#include "refusals.h"

namespace plimsoll {
namespace {

TEST(SharedKeys, DifferencesAreNamedUpToFour) {
  EXPECT_NO_THROW(job::require_same_keys({"a 1\nb 2\n", "a 1\nb 2\n", "a 1\nb 2\n"}));
  EXPECT_EQ(refusal_of([] {
              job::require_same_keys({"a 1\nb 2\n", "a 1\nb 2\n", "a 1\nb 3\n"});
            }),
            "b is 3 on rank 2 and 2 on rank 0; start all ranks with the same job file and the same settings");
  EXPECT_EQ(
      refusal_of([] {
        job::require_same_keys({"a 1\nb 1\nc 1\nd 1\ne 1\n", "a 2\nb 2\nc 2\nd 2\nf 2\n"});
      }),
      "a is 2 on rank 1 and 1 on rank 0, b is 2 on rank 1 and 1 on rank 0, c is 2 on rank 1 and 1 on rank 0, d is 2 "
      "on rank 1 and 1 on rank 0; start all ranks with the same job file and the same settings");
  EXPECT_EQ(
      refusal_of([] {
        job::require_same_keys({"a 1\n", "f 2\n"});
      }),
      "a is not set on rank 1 and 1 on rank 0, f is 2 on rank 1 and not set on rank 0; start all ranks with the same "
      "job file and the same settings");
}

}  // namespace
}  // namespace plimsoll
