// Operands keep their bytes while they are moved between caches.
#include "run/operand_caches.h"

#include <gtest/gtest.h>

#include <numeric>

#include "plimsoll/error.h"
#include "run/operand_distances.h"

namespace plimsoll {
namespace {

TEST(OperandCaches, ChangeNoByte) {
  std::vector<std::byte> bytes(3 << 20);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 2654435761u >> 24);
  const std::vector<std::byte> before = bytes;
  const std::span<const std::byte> all = bytes;
  const std::vector<std::span<const std::byte>> operands{all.subspan(0, 1), all.subspan(5, 100), all.subspan(200, 0),
                                                         all.subspan(4096)};
  OperandCaches caches;
  for (const int64_t distance : {int64_t{0}, int64_t{6} << 20, int64_t{1} << 40, kUntouched}) {
    caches.prepare(operands, std::vector<int64_t>(operands.size(), distance));
    EXPECT_EQ(bytes, before) << distance;
  }
  EXPECT_THROW(caches.prepare(operands, std::vector<int64_t>{1}), InternalError);
}

}  // namespace
}  // namespace plimsoll
