#include "common/open_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <vector>

#include "common/file_descriptor.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class OpenFiles : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0); }
  void TearDown() override { setrlimit(RLIMIT_NOFILE, &before_); }
  void AllowOnly(rlim_t files) const {
    rlimit limit = before_;
    limit.rlim_cur = files;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  rlimit before_{};
};

TEST_F(OpenFiles, TheLimitRisesToTheSystems) {
  AllowOnly(100);
  RaiseOpenFilesLimit();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, before_.rlim_max);
}

TEST_F(OpenFiles, TheTextHasTheFigures) {
  AllowOnly(100);
  EXPECT_THAT(OpenFilesText(), AllOf(HasSubstr("this process has "), HasSubstr(" may have 100")));
  EXPECT_TRUE(CanOpenFiles(10));
  EXPECT_FALSE(CanOpenFiles(100));
  EXPECT_TRUE(CanOpenFiles(10));
  std::vector<FileDescriptor> open;
  do {
    open.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  } while (open.back().open());
  EXPECT_FALSE(CanOpenFiles(1));
  EXPECT_THAT(OpenFilesText(), HasSubstr("this process has 100 files open and may have 100"));
}

}  // namespace
}  // namespace psgd
