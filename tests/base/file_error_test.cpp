#include "base/file_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "refusals.h"

namespace plimsoll {
namespace {

using Kind = UserError::Kind;
using ::testing::HasSubstr;

TEST(FileError, AWrongPathIsUsageAndAllElseIsAFailure) {
  for (const int error : {ENOENT, EACCES, EPERM, EROFS, EISDIR, ENOTDIR, ELOOP, ENAMETOOLONG, ENOTSUP, ENXIO}) {
    EXPECT_EQ(kind_of_file_error(error), Kind::usage) << error;
    EXPECT_THAT(refusal_of([&] { throw_file_error("read", "none/a.txt", error); }, Kind::usage),
                HasSubstr("cannot read none/a.txt: "));
  }
  for (const int error : {0, ENOSPC, EDQUOT, EIO, EMFILE, ENFILE, ENOMEM, EFBIG, ESTALE, EINTR}) {
    EXPECT_EQ(kind_of_file_error(error), Kind::failure) << error;
    EXPECT_THAT(refusal_of([&] { throw_file_error("write", "a.txt", error); }, Kind::failure),
                HasSubstr("cannot write a.txt: "));
  }
}

TEST(FileError, APathThatTheUserDidNotNameIsAFailure) {
  refusal_of([] { throw_file_error("read", "/dev/shm/plimsoll", ENOENT, Kind::failure); }, Kind::failure);
}

TEST(FileError, APipeIsNoFile) {
  EXPECT_EQ(refusal_of([] { throw_not_regular("a\x1b"); }, Kind::usage), "cannot read a?: it is not a regular file");
}

TEST(FileError, AFileLosesItsBytesLater) {
  refusal_of([] { throw_lost_bytes("a.txt", 3); }, Kind::failure);
}

// data.skip_bad leaves out files with any of these errors, and no wrong settings.
TEST(FileError, IsAFaultOfTheFile) {
  EXPECT_TRUE(is_fault_of_file(FileError("a.mp4 does not exist")));
  EXPECT_TRUE(is_fault_of_file(UserError("a.mp4 is damaged", Kind::failure)));
  EXPECT_FALSE(is_fault_of_file(UserError("data.max_frames is 0")));
}

}  // namespace
}  // namespace plimsoll
