#include "common/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

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

}  // namespace
}  // namespace psgd
