// Tests the backends that are found by the name of a device.
#include "device/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "refusals.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Backends, AreFoundByTheNameOfTheirDevice) {
  EXPECT_EQ(find_backend("cpu"), &cpu_backend());
  EXPECT_EQ(&backend_for("cpu"), &cpu_backend());
  EXPECT_EQ(find_backend("spare"), nullptr);
  add_backend("spare", cpu_backend());
  EXPECT_EQ(find_backend("spare"), &cpu_backend());
}

TEST(Backends, ANameThatIsNoDevicesIsRefused) {
  EXPECT_EQ(find_backend("abacus"), nullptr);
  EXPECT_THAT(refusal_of([] { backend_for("abacus"); }, UserError::Kind::failure),
              AllOf(HasSubstr("'abacus'"), HasSubstr("there is no such device; allowed are cpu, cuda, rocm, mps")));
}

}  // namespace
}  // namespace plimsoll
