// Tests mapped files that another program truncates while they are read: an error with the file's name, not SIGBUS, and
// no zeros.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/json_file.h"
#include "base/mapped_file.h"
#include "files/npy.h"
#include "files/npy_files.h"
#include "files/npz.h"
#include "files/picture.h"
#include "files/png_files.h"
#include "plimsoll/error.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Reads `file` while another thread cuts it, at other moments each time. `read` returns whether it has read the whole.
void expect_whole_or_an_error(const std::filesystem::path& file, const std::string& bytes,
                              const std::function<bool()>& read) {
  std::mt19937 random(1);
  for (int round = 0; round < 30; ++round) {
    put_file(file, bytes);
    const auto pause = std::chrono::microseconds(random() % 3000);
    const auto left = random() % bytes.size();
    std::thread cut([&] {
      std::this_thread::sleep_for(pause);
      std::filesystem::resize_file(file, left);
    });
    try {
      EXPECT_TRUE(read()) << "round " << round << ": what was lost was read as zeros";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr(file.string()));
    }
    cut.join();
  }
}

TEST(ShrinkingFiles, AreErrorsOrWhole) {
  const TempFolder folder;
  const std::vector<float> ones(1 << 20, 1.0F);
  const auto array = folder / "a.npy";
  expect_whole_or_an_error(array, npy<float>("<f4", "(1048576,)", ones),
                           [&] { return read_npy(array).floats() == ones; });
  const std::vector<uint16_t> grey(1024 * 1024, 200);
  const auto picture = folder / "a.png";
  expect_whole_or_an_error(picture, png(1024, 1024, 8, kPngGrey, grey),
                           [&] { return read_picture(picture).numbers == grey; });
  const std::string text(4 << 20, 'x');
  const auto json = folder / "a.json";
  expect_whole_or_an_error(json, "{\"a\": \"" + text + "\"}",
                           [&] { return read_json_file(json, 8 << 20).at("a").get<std::string>() == text; });
}

TEST(ShrinkingFiles, AnArchiveThatIsCutBehindItsDirectory) {
  const TempFolder folder;
  for (const bool deflated : {false, true}) {
    const auto path = put_file(
        folder / "a.npz", zip({{"x.npy", npy<float>("<f4", "(100000,)", std::vector<float>(100'000, 1))}}, deflated));
    const NpzFile archive(path);
    std::filesystem::resize_file(path, 0);
    EXPECT_THAT(user_error_of([&] { archive.read("x"); }), HasSubstr(path.string()));
  }
}

TEST(ShrinkingFiles, AreToldByTheMapping) {
  const TempFolder folder;
  const auto path = put_file(folder / "a.bin", std::string(100'000, 'x'));
  const MappedFile file = MappedFile::open(path);
  EXPECT_EQ(file.data()[99'999], std::byte{'x'});
  EXPECT_NO_THROW(file.require_whole());
  std::filesystem::resize_file(path, 4096);
  EXPECT_EQ(file.data()[99'999], std::byte{0});
  EXPECT_THAT(
      user_error_of([&] { file.require_whole(); }),
      AllOf(HasSubstr(path.string()), HasSubstr("it had 100000 bytes when it was opened, and has lost some of them")));
}

}  // namespace
}  // namespace plimsoll
