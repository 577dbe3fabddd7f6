#include "files/data_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "files/nifti.h"
#include "files/nifti_files.h"
#include "files/npy.h"
#include "files/npy_files.h"
#include "files/npz.h"
#include "files/picture.h"
#include "files/picture_files.h"
#include "files/ts_file.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "refusals.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// The error of `read` within a budget; "accepted" if it reads.
std::string refusal(int64_t budget, const std::function<void()>& read) {
  DataMemory memory(budget);
  const DataMemory::Scope scope(memory);
  return refusal_of(read);
}

TEST(DataMemory, NamesTheFileWhatItAnnouncesAndWhatIsAllowed) {
  EXPECT_EQ(refusal(4096, [] { require_data_memory("a.npy", "announces 4097 bytes", 4097); }),
            "a.npy: announces 4097 bytes, 4097 bytes in memory; allowed: 4096 bytes, which is data.memory_budget 4.00 "
            "KiB; set a "
            "larger data.memory_budget, or a smaller file");
  EXPECT_EQ(refusal(4096, [] { require_data_memory("a.npy", "announces 4096 bytes", 4096); }), "accepted");
}

TEST(DataMemory, CountsWhatOtherFilesKeep) {
  DataMemory memory(1000);
  const DataMemory::Scope scope(memory);
  keep_data_memory(600);
  EXPECT_EQ(data_memory_left(), 400);
  EXPECT_NO_THROW(require_data_memory("b", "has 400 bytes", 400));
  try {
    require_data_memory("b", "has 401 bytes", 401);
    ADD_FAILURE() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("allowed: 400 bytes, which is data.memory_budget 1000 B less 600 bytes of other files"));
    EXPECT_EQ(error.kind(), UserError::Kind::failure);
  }
}

TEST(DataMemory, BelongsToAThreadAndToAScope) {
  DataMemory outer(10), inner(std::nullopt);
  const DataMemory::Scope scope(outer);
  {
    const DataMemory::Scope nested(inner);
    EXPECT_TRUE(std::isinf(data_memory_left()));
  }
  EXPECT_EQ(data_memory_left(), 10);
  std::thread([] { EXPECT_TRUE(std::isinf(data_memory_left())); }).join();
}

TEST(DataMemory, IsAskedByReadersBeforeTheyRead) {
  const TempFolder folder;
  const auto array = put_file(folder / "a.npy", npy<float>("<f4", "(1000,)", std::vector<float>(1000)));
  EXPECT_THAT(refusal(4000, [&] { read_npy(array); }), AllOf(HasSubstr("a.npy: "), HasSubstr("allowed: 4000 bytes")));
  EXPECT_EQ(refusal(4128, [&] { read_npy(array); }), "accepted");

  const auto archive =
      put_file(folder / "a.npz", zip({{"x.npy", npy<float>("<f4", "(1000,)", std::vector<float>(1000))}}, true));
  EXPECT_THAT(refusal(4000, [&] { NpzFile(archive).read("x"); }), HasSubstr("a.npz: the array 'x': announces 40"));
  EXPECT_EQ(refusal(4128, [&] { NpzFile(archive).read("x"); }), "accepted");

  const auto volume =
      put_file(folder / "a.nii", nifti_bytes<int16_t>(NiftiType::int16, {10, 10, 10}, std::vector<int16_t>(1000, 1)));
  EXPECT_THAT(refusal(1999, [&] { read_nifti(volume); }),
              HasSubstr("a.nii: announces 10 x 10 x 10 voxels of int16, 2000 bytes in memory; allowed: 1999 bytes"));
  EXPECT_EQ(refusal(2000, [&] { read_nifti(volume); }), "accepted");

  std::string series = "@dimensions 1\n@classLabel true a\n@data\n";
  for (int i = 0; i < 10; ++i) series += "1,2,3,4:a\n";
  const auto table = put_file(folder / "a.ts", series);
  const auto read = [&] { read_ts_file(table, [](const std::string& what) { FAIL() << what; }); };
  EXPECT_THAT(refusal(1159, read), HasSubstr("a.ts: has 10 series up to line 13"));
  EXPECT_EQ(refusal(1160, read), "accepted");
}

// The picture's header alone: nothing is decoded.
TEST(DataMemory, IsAskedBeforeAPictureIsDecoded) {
  const TempFolder folder;
  const auto picture = put_file(folder / "a.png", png(64, 64, 8, kPngGray, std::vector<uint16_t>(64 * 64)));
  EXPECT_THAT(refusal(64 * 64 * 14, [&] { read_picture(picture); }), HasSubstr("a.png: says 64 x 64 pixels"));
}

}  // namespace
}  // namespace plimsoll
