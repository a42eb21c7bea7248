#include "common/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "common/atomic_file.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FilesTest : public testing::Test {
 protected:
  FilesTest() : folder_(testing::TempDir() + "/files_test") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~FilesTest() override { fs::remove_all(folder_); }

  const std::string folder_;
};

TEST_F(FilesTest, WritesAndReads) {
  const std::string path = folder_ + "/a";
  for (const std::string& contents :
       {std::string("one"), std::string(100000, 'x'), std::string("\0\n", 2), std::string()}) {
    ASSERT_TRUE(WriteFileAtomically(path, contents).ok());
    EXPECT_EQ(*ReadSmallFile(path, 100000), contents);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(FilesTest, RefusesAFileAboveTheLimit) {
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/a", "12345").ok());
  EXPECT_TRUE(ReadSmallFile(folder_ + "/a", 5).ok());
  EXPECT_THAT(std::string(ReadSmallFile(folder_ + "/a", 4).status().message()),
              HasSubstr("/a is larger than 4 bytes"));
  EXPECT_THAT(std::string(ReadSmallFile("/dev/zero", 1000).status().message()),
              HasSubstr("larger than 1000 bytes"));
}

TEST_F(FilesTest, ErrorsSayWhatToDo) {
  EXPECT_EQ(ReadSmallFile(folder_ + "/none", 1).status().message(),
            "cannot open " + folder_ +
                "/none: No such file or directory; check the spelling and "
                "the folder it is relative to");
  EXPECT_EQ(ReadSmallFile(folder_, 1).status().message(),
            "cannot read " + folder_ + ": Is a directory");
  EXPECT_EQ(FileError("write", "/x", ENOSPC).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(FileError("write", "/x", EDQUOT).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(FileError("open", "/x", EMFILE).code(), absl::StatusCode::kResourceExhausted)
      << "no room would help";
  EXPECT_THAT(std::string(FileError("open", "/x", EMFILE).message()),
              HasSubstr("files open and may have"));
}

TEST_F(FilesTest, AFailedWriteLeavesTheOldFileAndNothingElse) {
  fs::create_directories(folder_ + "/target/inside");  // a rename cannot replace it
  const absl::Status status = WriteFileAtomically(folder_ + "/target", "new");
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot replace " + folder_ + "/target"));
  EXPECT_TRUE(fs::exists(folder_ + "/target/inside"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(FilesTest, FollowsALink) {
  fs::create_directories(folder_ + "/inside");
  fs::create_symlink("inside/target", folder_ + "/link");
  fs::create_symlink("link", folder_ + "/outer");
  for (const char* const contents : {"not there yet", "replaced"}) {
    ASSERT_TRUE(WriteFileAtomically(folder_ + "/outer", contents).ok());
    EXPECT_EQ(*ReadSmallFile(folder_ + "/inside/target", 100), contents);
  }
  EXPECT_TRUE(fs::is_symlink(folder_ + "/link") && fs::is_symlink(folder_ + "/outer"));
  EXPECT_FALSE(IsWrittenDirectly(folder_ + "/outer"));
  fs::create_symlink("circle", folder_ + "/circle");
  EXPECT_THAT(std::string(WriteFileAtomically(folder_ + "/circle", "").message()),
              HasSubstr("cannot open " + folder_ + "/circle"));
}

TEST_F(FilesTest, WritesToAPipeAsItIs) {
  const std::string path = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_TRUE(IsWrittenDirectly(path));
  ASSERT_TRUE(WriteFileAtomically(path, "contents").ok());
  char contents[16];
  EXPECT_EQ(read(reader, contents, sizeof contents), 8);
  close(reader);
  EXPECT_TRUE(fs::is_fifo(path));
}

TEST_F(FilesTest, AddsToItsOwnOutput) {
  const std::string path = folder_ + "/output";
  const int before = dup(STDOUT_FILENO);
  const int output = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(dup2(output, STDOUT_FILENO), 0);
  const bool direct = IsWrittenDirectly("/dev/stdout");
  const bool printed = write(STDOUT_FILENO, "one ", 4) == 4;
  const absl::Status status = WriteFileAtomically("/dev/stdout", "two ");
  const bool printed_after = write(STDOUT_FILENO, "three", 5) == 5;
  dup2(before, STDOUT_FILENO);
  close(before);
  close(output);
  EXPECT_TRUE(direct && printed && printed_after);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(*ReadSmallFile(path, 100), "one two three");
}

}  // namespace
}  // namespace psgd
