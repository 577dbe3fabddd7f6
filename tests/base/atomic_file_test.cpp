#include "base/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "plimsoll/error.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class AtomicFileTest : public ::testing::Test {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename().string());
    return names;
  }
  template <typename Action>
  static std::string failure(Action&& action) {
    return refusal_of(action, UserError::Kind::failure);
  }
  /// The error of a path that is wrong.
  template <typename Action>
  static std::string refusal(Action&& action) {
    return refusal_of(action, UserError::Kind::usage);
  }

  const TempFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(AtomicFileTest, CommitGivesTheFileItsNameAndLeavesNothingBeside) {
  std::string text = "first\n";
  text.push_back('\0');
  AtomicFile file(folder_ / "out.bin");
  file.write(text);
  file.write(std::as_bytes(std::span("second", 6)));
  EXPECT_FALSE(fs::exists(folder_ / "out.bin"));
  file.commit();
  EXPECT_EQ(get_file(folder_ / "out.bin"), text + "second");
  EXPECT_THAT(names(), ElementsAre("out.bin"));
}

TEST_F(AtomicFileTest, WithoutCommitTheOldFileStaysAndTheAsideOneGoes) {
  write_file_atomically(folder_ / "out", "old");
  {
    AtomicFile file(folder_ / "out");
    file.write("new");
    EXPECT_EQ(get_file(folder_ / "out"), "old");
    EXPECT_EQ(names().size(), 2u);
  }
  EXPECT_EQ(get_file(folder_ / "out"), "old");
  EXPECT_THAT(names(), ElementsAre("out"));
}

// For a process that ends without destructors.
TEST_F(AtomicFileTest, UnfinishedFilesCanBeRemoved) {
  AtomicFile done(folder_ / "done.txt");
  done.write("text");
  done.commit();
  AtomicFile unfinished(folder_ / "unfinished.txt");
  unfinished.write("text");
  EXPECT_EQ(names().size(), 2u);
  remove_unfinished_files();
  EXPECT_THAT(names(), ElementsAre("done.txt"));
}

TEST_F(AtomicFileTest, TwoWritersOfOneFileDoNotMeet) {
  AtomicFile first(folder_ / "out");
  AtomicFile second(folder_ / "out");
  first.write("first");
  second.write("second");
  second.commit();
  EXPECT_EQ(get_file(folder_ / "out"), "second");
  first.commit();
  EXPECT_EQ(get_file(folder_ / "out"), "first");
  EXPECT_THAT(names(), ElementsAre("out"));
}

TEST_F(AtomicFileTest, AReplacedFileKeepsItsPermissionsAndANewOneFollowsTheUmask) {
  mode_t before = ::umask(0027);
  write_file_atomically(folder_ / "new", "x");
  ::umask(before);
  EXPECT_EQ(fs::status(folder_ / "new").permissions(), fs::perms(0640));
  fs::permissions(folder_ / "new", fs::perms(0600));
  write_file_atomically(folder_ / "new", "y");
  EXPECT_EQ(fs::status(folder_ / "new").permissions(), fs::perms(0600));
  EXPECT_EQ(get_file(folder_ / "new"), "y");
}

TEST_F(AtomicFileTest, ASymbolicLinkStaysALink) {
  fs::create_directory(folder_ / "elsewhere");
  write_file_atomically(folder_ / "elsewhere" / "real", "old");
  fs::create_symlink(folder_ / "elsewhere" / "real", folder_ / "link");
  write_file_atomically(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(get_file(folder_ / "elsewhere" / "real"), "new");
}

TEST_F(AtomicFileTest, ADeviceIsWrittenStraightAndStaysADevice) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  std::fstream reader(folder_ / "pipe", std::ios::in | std::ios::out);  // both: neither end waits for the other
  write_file_atomically(folder_ / "pipe", "line\n");
  std::string line;
  std::getline(reader, line);
  EXPECT_EQ(line, "line");
  EXPECT_TRUE(fs::is_fifo(folder_ / "pipe"));
  EXPECT_THAT(names(), ElementsAre("pipe"));
}

TEST_F(AtomicFileTest, TheLongestNameThatTheSystemTakesWorks) {
  std::string name(255, 'n');
  write_file_atomically(folder_ / name, "x");
  EXPECT_THAT(names(), ElementsAre(name));
}

TEST_F(AtomicFileTest, AMissingFolderIsNamed) {
  std::string message = refusal([&] { AtomicFile file(folder_ / "none" / "out"); });
  EXPECT_THAT(message, AllOf(HasSubstr((folder_ / "none" / "out").string()),
                             HasSubstr("the folder " + (folder_ / "none").string() + " does not exist")));
}

TEST_F(AtomicFileTest, AFolderIsNotAFile) {
  EXPECT_THAT(refusal([&] { AtomicFile file(folder_); }),
              AllOf(HasSubstr(folder_.string()), HasSubstr("it is a folder")));
  EXPECT_THAT(refusal([&] { AtomicFile file(folder_ / ""); }), HasSubstr("it is a folder"));
}

TEST_F(AtomicFileTest, APathThatCannotBeIsRefusedBeforeAByteIsWritten) {
  EXPECT_THAT(refusal([&] { AtomicFile file(folder_ / std::string(256, 'n')); }), HasSubstr("File name too long"));
  fs::create_symlink("loop", folder_ / "loop");
  EXPECT_THAT(refusal([&] { AtomicFile file(folder_ / "loop"); }), HasSubstr("Too many levels of symbolic links"));
  write_file_atomically(folder_ / "file", "x");
  EXPECT_THAT(refusal([&] { AtomicFile file(folder_ / "file" / "out"); }), HasSubstr("is a file; name a folder"));
}

TEST_F(AtomicFileTest, NoPermissionIsAnErrorAndTouchesNothing) {
  if (::geteuid() == 0) GTEST_SKIP() << "the superuser may write everywhere";
  write_file_atomically(folder_ / "protected", "old");
  fs::permissions(folder_ / "protected", fs::perms(0400));
  EXPECT_THAT(refusal([&] { write_file_atomically(folder_ / "protected", "new"); }), HasSubstr("Permission denied"));
  fs::permissions(folder_, fs::perms(0500));
  EXPECT_THAT(refusal([&] { AtomicFile file(folder_ / "out"); }), HasSubstr("Permission denied"));
  fs::permissions(folder_, fs::perms(0700));
  EXPECT_EQ(get_file(folder_ / "protected"), "old");
}

// A limit on the size of files replaces the full disk: the same failed write, with no disk to fill.
TEST_F(AtomicFileTest, AWriteThatFailsHalfwayLeavesTheOldFile) {
  write_file_atomically(folder_ / "out", "old");
  auto previous = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message = failure([&] { write_file_atomically(folder_ / "out", std::string(10000, 'x')); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, previous);
  EXPECT_THAT(message, AllOf(HasSubstr((folder_ / "out").string()), HasSubstr("File too large")));
  EXPECT_EQ(get_file(folder_ / "out"), "old");
  EXPECT_THAT(names(), ElementsAre("out"));
}

TEST_F(AtomicFileTest, AFullDeviceSaysNoSpace) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  EXPECT_THAT(failure([&] { write_file_atomically("/dev/full", "x"); }),
              AllOf(HasSubstr("/dev/full"), HasSubstr("No space left on device"), HasSubstr("free some space")));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(AtomicFileTest, UseAfterCommitIsOurBug) {
  AtomicFile file(folder_ / "out");
  file.commit();
  EXPECT_THROW(file.write("late"), InternalError);
  EXPECT_THROW(file.commit(), InternalError);
  EXPECT_EQ(get_file(folder_ / "out"), "");
}

TEST_F(AtomicFileTest, AFailedCommitRemovesTheAsideFile) {
  {
    AtomicFile file(folder_ / "out");
    file.write("x");
    fs::create_directory(folder_ / "out");
    EXPECT_THAT(failure([&] { file.commit(); }), HasSubstr("it is a folder"));
  }
  EXPECT_THAT(names(), ElementsAre("out"));
  EXPECT_TRUE(fs::is_directory(folder_ / "out"));
}

}  // namespace
}  // namespace plimsoll
