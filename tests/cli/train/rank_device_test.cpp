// Tests the device of each rank of a host.
#include "cli/train/rank_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plimsoll/error.h"
#include "refusals.h"

namespace plimsoll::cli {
namespace {

using ::testing::HasSubstr;

TEST(RankDevice, IsTheOneOfItsNumberAmongThoseThatAreVisible) {
  EXPECT_EQ(visible_device_of(2, 4, "", 8, false), "2");
  EXPECT_EQ(visible_device_of(1, 2, "4,6,7", 8, false), "6");
  EXPECT_EQ(visible_device_of(1, 2, "GPU-a,GPU-b", 8, false), "GPU-b");
  EXPECT_EQ(visible_device_of(1, 2, "", 0, false), "1");  // the backend's error names the missing part
  EXPECT_EQ(visible_device_of(1, 2, "0", 8, true), std::nullopt);
  EXPECT_EQ(visible_device_of(1, 2, "0,1", 8, true), "1");
}

TEST(RankDevice, MoreRanksThanDevicesAreRefused) {
  const auto refusal = [](const char* visible, int64_t present) {
    return refusal_of([&] { visible_device_of(0, 4, visible, present, false); });
  };
  EXPECT_EQ(refusal("", 2), "4 ranks on this host, but 2 devices; start at most 2 here");
  EXPECT_EQ(refusal("3", 8), "4 ranks on this host, but 1 device visible (3); start at most 1 here");
  EXPECT_EQ(refusal("", 4), "accepted");
  EXPECT_THAT(refusal_of([] { require_devices("mps", 2); }), HasSubstr("one device of type mps"));
  EXPECT_NO_THROW(require_devices("cpu", 64));
  EXPECT_THAT(refusal_of([] { require_devices("cpu", 1 << 16); }),
              HasSubstr("65536 ranks on the CPU of this machine, which has "));
}

}  // namespace
}  // namespace plimsoll::cli
