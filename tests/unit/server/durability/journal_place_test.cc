// Journals in wrong folders, or in folders that are open to other users.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "server/durability/checkpoint_files.h"
#include "server/durability/journal_folder.h"
#include "tests/unit/server/durability/small_journal.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class JournalPlaceTest : public testing::Test {
 protected:
  JournalPlaceTest() { fs::create_directories(root_); }
  ~JournalPlaceTest() override { fs::remove_all(root_); }

  RocksJournalOptions OptionsOf(uint32_t shard) const {
    return {absl::StrCat(root_, "/shard-", shard), shard};
  }
  void MakeJournal(uint32_t shard) const { MakeSmallJournal(OptionsOf(shard)); }
  void Swap() const {
    fs::rename(root_ + "/shard-0", root_ + "/aside");
    fs::rename(root_ + "/shard-1", root_ + "/shard-0");
    fs::rename(root_ + "/aside", root_ + "/shard-1");
  }
  fs::perms Mode() const { return fs::status(root_ + "/journal").permissions(); }
  std::string Closed(absl::Status (*close)(const std::string&, const Log&)) const {
    std::ostringstream said;
    const auto log = std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_st>(said));
    EXPECT_TRUE(close(root_, log).ok());
    return said.str();
  }

  const std::string root_ = absl::StrCat(testing::TempDir(), "/psgd-journal-place-", getpid());
};

TEST_F(JournalPlaceTest, OfAnotherShardIsRefusedAndSaid) {
  for (const uint32_t shard : {0, 1}) MakeJournal(shard);
  Swap();
  for (const uint32_t shard : {0, 1}) {
    const std::string why =
        absl::StrCat("holds the journal of shard ", 1 - shard, ", not of shard ", shard);
    const auto opened = RocksJournal::Open(OptionsOf(shard));
    EXPECT_TRUE(absl::IsDataLoss(opened.status())) << opened.status();
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr(why));
    const JournalReport report = RocksJournal::Check(OptionsOf(shard));
    EXPECT_FALSE(report.recovers);
    EXPECT_THAT(report.damage, testing::ElementsAre(HasSubstr(why)));
  }
  Swap();
  for (const uint32_t shard : {0, 1}) {
    EXPECT_TRUE(RocksJournal::Open(OptionsOf(shard)).ok());
    EXPECT_TRUE(RocksJournal::Check(OptionsOf(shard)).recovers);
  }
}

TEST_F(JournalPlaceTest, OneThatACrashKeepsFromBeingDiscardedIsWholeOrGone) {
  constexpr int kFiles = 400;
  const std::string folder = root_ + "/shard-0";
  const auto files = [&] {
    return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  };
  int halfway = 0;
  for (int life = 0; life < 40; ++life) {
    fs::create_directories(folder);
    for (int i = 0; i < kFiles; ++i) std::ofstream(absl::StrCat(folder, "/", i));
    const pid_t child = fork();
    if (child == 0) _exit(DiscardFolder(folder).ok() ? 0 : 1);
    usleep(50 * life);
    kill(child, SIGKILL);
    int code = 0;
    waitpid(child, &code, 0);
    EXPECT_TRUE(!fs::exists(folder) || files() == kFiles);
    halfway += fs::exists(folder + kGoneSuffix) ? 1 : 0;
    EXPECT_THAT(StrayFolders(root_ + "/shard-1"), testing::IsEmpty());
    EXPECT_TRUE(DiscardFolder(folder).ok());
    EXPECT_TRUE(fs::is_empty(root_));
  }
  RecordProperty("halfway", halfway);
}

TEST_F(JournalPlaceTest, OneThatACrashLeftHalfCreatedHoldsNothing) {
  const auto remove = [&](const std::string& what) { fs::remove_all(root_ + "/shard-0/" + what); };
  const auto opened = [&] { return RocksJournal::Open(OptionsOf(0)).status(); };
  fs::create_directories(root_ + "/shard-0");
  EXPECT_TRUE(absl::IsNotFound(opened())) << opened();
  fs::create_directories(root_ + "/shard-0/log");
  EXPECT_TRUE(absl::IsNotFound(opened())) << opened();
  MakeJournal(0);
  EXPECT_TRUE(opened().ok()) << opened();
  remove("log/CURRENT");
  EXPECT_FALSE(absl::IsNotFound(opened())) << "it had been created: " << opened();
  remove("log");
  EXPECT_TRUE(absl::IsDataLoss(opened())) << opened();
}

TEST_F(JournalPlaceTest, OneThatIsOpenToOthersIsClosedAndThatIsSaid) {
  EXPECT_EQ(Closed(MakeJournalFolder), "");
  EXPECT_EQ(Mode(), fs::perms::owner_all);
  EXPECT_EQ(Closed(CloseJournalFolder), "");
  for (const auto again : {CloseJournalFolder, MakeJournalFolder}) {
    fs::permissions(root_ + "/journal", fs::perms(0757));
    EXPECT_THAT(Closed(again), HasSubstr("was open to others (mode 757)"));
    EXPECT_EQ(Mode(), fs::perms::owner_all);
  }
}

}  // namespace
}  // namespace psgd
