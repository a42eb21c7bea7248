// The journal on a real disk: written entries are there again, or their loss is reported.
#include "server/durability/rocks_journal.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "server/durability/journal_format.h"
#include "server/durability/rocks.h"

namespace psgd {
namespace {

// The paths of the files that this process synced.
struct SyncedFiles {
  std::mutex mutex;
  std::vector<std::string> paths;
};
SyncedFiles& synced_files() {
  static SyncedFiles files;
  return files;
}

}  // namespace
}  // namespace psgd

// Replaces the C library's fsync in this process.
extern "C" int fsync(int fd) {
  std::error_code error;
  const auto path = std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", fd), error);
  psgd::SyncedFiles& synced = psgd::synced_files();
  std::lock_guard lock(synced.mutex);
  if (!error) synced.paths.push_back(path.string());
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace psgd {
namespace {

namespace fs = std::filesystem;

std::string FreshFolder() {
  std::string path = "/tmp/psgd-journal-XXXXXX";
  return mkdtemp(path.data());
}

JournalEntry PushOf(uint64_t seq, size_t bytes) {
  JournalEntry entry;
  entry.head.mutable_message()->mutable_push()->set_seq(seq);
  entry.payloads.push_back(
      Bytes::Adopt(std::vector<std::byte>(bytes, static_cast<std::byte>(seq * 7 + 1))));
  return entry;
}

ShardImage ImageAt(uint64_t entry) {
  ShardImage image;
  image.record.set_entry(entry);
  image.record.set_completed(entry * 10);
  SliceSnapshot& slice = image.arrays.slices.emplace_back();
  slice.parameter = "w";
  slice.version = entry;
  slice.weights = Bytes::Adopt(std::vector<std::byte>(4000, static_cast<std::byte>(entry)));
  return image;
}

class RocksJournalTest : public testing::Test {
 protected:
  ~RocksJournalTest() override { fs::remove_all(root_); }

  RocksJournalOptions Options(bool sync = false) const { return {root_ + "/shard-0", 0, sync}; }
  std::unique_ptr<RocksJournal> Create() {
    auto journal = RocksJournal::Create(Options());
    EXPECT_TRUE(journal.ok()) << journal.status();
    EXPECT_TRUE((*journal)->BeginLog(1).ok());
    EXPECT_TRUE((*journal)->SaveImage(ImageAt(0)).ok());
    return *std::move(journal);
  }
  static void Append(RocksJournal& journal, uint64_t first, int count, size_t bytes = 100) {
    std::vector<JournalEntry> entries;
    for (int i = 0; i < count; ++i) entries.push_back(PushOf(first + i, bytes));
    ASSERT_TRUE(journal.Append(first, entries).ok());
  }
  void CutOffImage(const std::string& entry) const {
    for (const auto& found : fs::directory_iterator(root_ + "/shard-0/image-0000000000" + entry)) {
      if (found.path().extension() == ".sst") fs::resize_file(found, fs::file_size(found) / 2);
    }
  }
  // The numbers of the entries after `entry`, each checked; or the error.
  static absl::StatusOr<std::vector<uint64_t>> Read(RocksJournal& journal, uint64_t entry) {
    std::vector<uint64_t> seqs;
    const absl::Status status = journal.Replay(entry, [&](const JournalEntry& read) {
      const uint64_t seq = read.head.message().push().seq();
      seqs.push_back(seq);
      const JournalEntry expected = PushOf(seq, read.payloads.at(0).size());
      EXPECT_TRUE(std::equal(read.payloads[0].span().begin(), read.payloads[0].span().end(),
                             expected.payloads[0].span().begin()));
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    return seqs;
  }

  const std::string root_ = FreshFolder();
};

TEST_F(RocksJournalTest, WhatAnUnfinishedImageLeftGoesWithTheNext) {
  const auto journal = Create();
  const std::string left = root_ + "/shard-0/image-000000000005.sst";
  std::ofstream(left) << "half a table";
  ASSERT_TRUE(journal->BeginLog(1).ok());
  ASSERT_TRUE(journal->SaveImage(ImageAt(0)).ok());
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(RocksJournalTest, WhatWasAppendedIsThereAgain) {
  { Append(*Create(), 1, 5); }
  auto journal = RocksJournal::Open(Options());
  ASSERT_TRUE(journal.ok()) << journal.status();
  EXPECT_THAT(*Read(**journal, 0), testing::ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(*Read(**journal, 3), testing::ElementsAre(4, 5));
  Append(**journal, 6, 1);
  EXPECT_THAT(*Read(**journal, 4), testing::ElementsAre(5, 6));
}

TEST_F(RocksJournalTest, AProcessThatIsKilledHasWrittenWhatItAppended) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a forked process starts no threads under ThreadSanitizer";
#endif
  const pid_t child = fork();
  if (child == 0) {
    auto journal = Create();
    for (uint64_t seq = 1; seq <= 50; ++seq) Append(*journal, seq, 1, 5000);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  auto journal = RocksJournal::Open(Options());
  ASSERT_TRUE(journal.ok()) << journal.status();
  EXPECT_EQ(Read(**journal, 0)->size(), 50u);
}

// A server that is killed between write and sync has not acknowledged the entries. After its
// restart it finds them and acknowledges them.
TEST_F(RocksJournalTest, WhatTheLifeBeforeDidNotSyncIsSyncedBeforeItCounts) {
  { Append(*Create(), 1, 5); }
  const auto synced_logs = [this](bool sync) {
    synced_files().paths.clear();
    EXPECT_TRUE(RocksJournal::Open(Options(sync)).ok());
    return std::count_if(synced_files().paths.begin(), synced_files().paths.end(),
                         [](const std::string& path) { return path.ends_with(".log"); });
  };
  EXPECT_EQ(synced_logs(false), 0);
  EXPECT_GT(synced_logs(true), 0);
}

TEST_F(RocksJournalTest, ThatTheMachineStartedAnewIsToldOnceWhereItMayCostPushes) {
  const auto notes_of = [this](const std::string& start, bool sync) {
    RocksJournalOptions options = Options(sync);
    options.machine_start = start;
    auto journal = RocksJournal::Open(options);
    EXPECT_TRUE(journal.ok()) << journal.status();
    std::vector<std::string> notes;
    EXPECT_TRUE((*journal)->LoadImage(&notes).ok());
    std::vector<std::string> again;
    EXPECT_TRUE((*journal)->LoadImage(&again).ok());
    EXPECT_THAT(again, testing::IsEmpty());
    return notes;
  };
  Create();
  EXPECT_THAT(notes_of("", false), testing::IsEmpty());  // this machine, which did not restart
  EXPECT_THAT(notes_of("another", false),
              testing::ElementsAre(testing::HasSubstr("machine was started anew")));
  EXPECT_THAT(notes_of("another", false), testing::IsEmpty());
  EXPECT_THAT(notes_of("a third", true), testing::IsEmpty());  // everything is on disk
}

TEST_F(RocksJournalTest, OldImagesAndTheirEntriesGo) {
  auto journal = Create();
  for (uint64_t entry = 10; entry <= 50; entry += 10) {
    Append(*journal, entry - 9, 10);
    ASSERT_TRUE(journal->BeginLog(entry + 1).ok());
    ASSERT_TRUE(journal->SaveImage(ImageAt(entry)).ok());
  }
  Append(*journal, 51, 2);
  std::vector<std::string> notes;
  EXPECT_EQ(journal->LoadImage(&notes)->record.entry(), 50u);
  EXPECT_THAT(*Read(*journal, 50), testing::ElementsAre(51, 52));
  EXPECT_EQ(Read(*journal, 40)->size(), 12u);
  EXPECT_TRUE(absl::IsDataLoss(Read(*journal, 20).status())) << "they should be gone";
  int images = 0;
  for (const auto& found : fs::directory_iterator(root_ + "/shard-0")) {
    images += found.path().filename().string().rfind("image", 0) == 0;
  }
  EXPECT_EQ(images, 2);
}

// A lost file of the log takes the entries before an image with those after it.
TEST_F(RocksJournalTest, ALogThatEndsBeforeAnImageIsRefused) {
  {
    auto journal = Create();
    Append(*journal, 1, 5);
    ASSERT_TRUE(journal->BeginLog(11).ok());
    ASSERT_TRUE(journal->SaveImage(ImageAt(10)).ok());
    std::vector<std::string> notes;
    const absl::Status refused = journal->LoadImage(&notes).status();
    EXPECT_TRUE(absl::IsDataLoss(refused));
    EXPECT_THAT(std::string(refused.message()),
                testing::HasSubstr("log ends at entry 5, before image 10: its end is gone"));
  }
  const JournalReport report = RocksJournal::Check(Options());
  EXPECT_THAT(report.damage, testing::ElementsAre(testing::HasSubstr("its end is gone")));
  EXPECT_FALSE(report.recovers);
}

TEST_F(RocksJournalTest, TheDiskHoldsNoMoreThanItMust) {
  auto journal = Create();
  uint64_t largest = 0;
  for (uint64_t entry = 10; entry <= 300; entry += 10) {
    Append(*journal, entry - 9, 10, 20000);
    ASSERT_TRUE(journal->BeginLog(entry + 1).ok());
    ASSERT_TRUE(journal->SaveImage(ImageAt(entry)).ok());
    uint64_t bytes = 0;
    for (const auto& found : fs::recursive_directory_iterator(root_)) {
      if (found.is_regular_file()) bytes += found.file_size();
    }
    largest = std::max(largest, bytes);
  }
  // 6 MB were appended, 0.2 MB between two images.
  EXPECT_LT(largest, 2u << 20);
}

TEST_F(RocksJournalTest, ADamagedImageIsPassedOverForTheOneBefore) {
  {
    auto journal = Create();
    Append(*journal, 1, 10);
    ASSERT_TRUE(journal->BeginLog(11).ok());
    ASSERT_TRUE(journal->SaveImage(ImageAt(10)).ok());
    Append(*journal, 11, 3);
  }
  CutOffImage("10");
  auto journal = RocksJournal::Open(Options());
  ASSERT_TRUE(journal.ok()) << journal.status();
  std::vector<std::string> notes;
  const auto image = (*journal)->LoadImage(&notes);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->record.entry(), 0u);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], testing::HasSubstr("passed over"));
  EXPECT_EQ(Read(**journal, 0)->size(), 13u);
  // The damaged image is not one of the two kept images, because the next image may be damaged too.
  ASSERT_TRUE((*journal)->BeginLog(14).ok());
  ASSERT_TRUE((*journal)->SaveImage(ImageAt(13)).ok());
  CutOffImage("13");
  journal->reset();
  journal = RocksJournal::Open(Options());
  ASSERT_TRUE(journal.ok()) << journal.status();
  const auto again = (*journal)->LoadImage(&notes);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->record.entry(), 0u);
  EXPECT_EQ(Read(**journal, 0)->size(), 13u);
}

// Flips a bit of any file: a read returns what was written, or an error.
TEST_F(RocksJournalTest, AFlippedBitNeverMakesOtherEntries) {
  {
    auto journal = Create();
    for (uint64_t seq = 1; seq <= 30; ++seq) Append(*journal, seq, 1, 300);
  }
  const std::string whole = root_ + "/whole";
  fs::rename(root_ + "/shard-0", whole);
  int errors = 0, unharmed = 0;
  for (const auto& found : fs::recursive_directory_iterator(whole)) {
    if (!found.is_regular_file()) continue;
    const uint64_t size = fs::file_size(found);
    for (uint64_t at = size / 13; at < size; at += size / 7 + 1) {
      fs::remove_all(root_ + "/shard-0");
      fs::copy(whole, root_ + "/shard-0", fs::copy_options::recursive);
      const fs::path file = root_ + "/shard-0/" + fs::relative(found.path(), whole).string();
      std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
      bytes.seekg(static_cast<std::streamoff>(at));
      const char byte = static_cast<char>(bytes.get());
      bytes.seekp(static_cast<std::streamoff>(at));
      bytes.put(static_cast<char>(byte ^ 0x10));
      bytes.close();
      std::vector<std::string> notes;
      auto journal = RocksJournal::Open(Options());
      if (!journal.ok() || !(*journal)->LoadImage(&notes).ok()) {
        ++errors;
        continue;
      }
      const auto seqs = Read(**journal, 0);
      if (!seqs.ok()) {
        ++errors;
        continue;
      }
      ASSERT_EQ(seqs->size(), 30u) << file << " byte " << at;
      for (size_t i = 0; i < seqs->size(); ++i) ASSERT_EQ((*seqs)[i], i + 1) << file;
      ++unharmed;
    }
  }
  EXPECT_GT(errors, 10);
  RecordProperty("errors", errors);
  std::cout << errors << " errors, " << unharmed << " unharmed\n";
}

// RocksDB takes an impossible length at the end of its log for a write that was cut off.
TEST_F(RocksJournalTest, ALengthThatIsWrongAtTheEndOfALogIsNoCutOffWrite) {
  {
    auto journal = Create();
    for (uint64_t seq = 1; seq <= 30; ++seq) Append(*journal, seq, 1, 300);
  }
  fs::path log;
  for (const auto& found : fs::directory_iterator(root_ + "/shard-0/log")) {
    if (found.path().extension() == ".log" && found.file_size() > 0) log = found.path();
  }
  const uint64_t size = fs::file_size(log);
  ASSERT_LT(size, 32768u);
  const auto flip_length = [&](uint64_t record) {
    std::fstream bytes(log, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(static_cast<std::streamoff>(record + 5));
    const char byte = static_cast<char>(bytes.get());
    bytes.seekp(static_cast<std::streamoff>(record + 5));
    bytes.put(static_cast<char>(byte ^ 0x70));
  };
  std::vector<uint64_t> records;
  {
    std::ifstream in(log, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    for (uint64_t at = 0; at + 7 <= size;) {
      records.push_back(at);
      at += 7 + static_cast<uint8_t>(bytes[at + 4]) + 256 * static_cast<uint8_t>(bytes[at + 5]);
    }
  }
  ASSERT_GT(records.size(), 30u);
  for (const uint64_t record : {records[3], records[records.size() / 2], records.back()}) {
    flip_length(record);
    const auto journal = RocksJournal::Open(Options());
    EXPECT_TRUE(absl::IsDataLoss(journal.status())) << record << ": " << journal.status();
    EXPECT_THAT(std::string(journal.status().message()),
                testing::HasSubstr(absl::StrCat(log.string(), ": the record at byte ", record)));
    flip_length(record);
  }
  // A write that was cut off is no damage.
  EXPECT_TRUE(RocksJournal::Check(Options()).damage.empty());
  fs::resize_file(log, size - 5);
  EXPECT_TRUE(RocksJournal::Check(Options()).damage.empty());
  auto journal = RocksJournal::Open(Options());
  ASSERT_TRUE(journal.ok()) << journal.status();
  EXPECT_EQ(Read(**journal, 0)->size(), 29u);
}

TEST_F(RocksJournalTest, CheckNamesWhatIsDamaged) {
  {
    auto journal = Create();
    Append(*journal, 1, 10);
    ASSERT_TRUE(journal->BeginLog(11).ok());
    ASSERT_TRUE(journal->SaveImage(ImageAt(10)).ok());
    Append(*journal, 11, 3);
  }
  JournalReport report = RocksJournal::Check(Options());
  EXPECT_THAT(report.damage, testing::IsEmpty());
  EXPECT_THAT(report.images, testing::ElementsAre(10, 0));
  EXPECT_EQ(report.first, 1u);
  EXPECT_EQ(report.last, 13u);
  EXPECT_TRUE(report.recovers);
  for (const auto& found : fs::directory_iterator(root_ + "/shard-0/image-000000000010")) {
    if (found.path().extension() == ".sst") fs::resize_file(found, fs::file_size(found) / 2);
  }
  report = RocksJournal::Check(Options());
  ASSERT_EQ(report.damage.size(), 1u);
  EXPECT_THAT(report.damage[0], testing::HasSubstr("image 10: "));
  EXPECT_THAT(report.images, testing::ElementsAre(0));
  EXPECT_TRUE(report.recovers);
  EXPECT_FALSE(RocksJournal::Check({root_ + "/nothing", 0, false}).recovers);
}

TEST(JournalFormat, AnEntryOfAnEarlierVersionIsReadAndMarked) {
  const JournalKey key = EncodeJournalKey(JournalKind::kEntry, 1);
  std::string value;
  EncodeEntry(key, PushOf(1, 10), &value);
  const auto now = DecodeEntry(key, value);
  ASSERT_TRUE(now.ok()) << now.status();
  EXPECT_FALSE(now->earlier_rules);
  std::memcpy(value.data(), &kEarlierJournalFormatVersion, sizeof kEarlierJournalFormatVersion);
  const auto earlier = DecodeEntry(key, value);
  ASSERT_TRUE(earlier.ok()) << earlier.status();
  EXPECT_TRUE(earlier->earlier_rules);
  EXPECT_EQ(earlier->head.message().push().seq(), 1u);
  value[0] = 1;
  EXPECT_THAT(std::string(DecodeEntry(key, value).status().message()),
              testing::HasSubstr("has format version 1; this program reads 4"));
}

TEST_F(RocksJournalTest, AFullDiskThatHasRoomAgainIsWrittenOn) {
  if (mount("psgd-test", root_.c_str(), "tmpfs", 0, "size=4m") != 0) {
    GTEST_SKIP() << "no file system may be mounted here";
  }
  auto journal = Create();
  Append(*journal, 1, 20, 1000);
  {
    std::ofstream filler(root_ + "/filler", std::ios::binary);
    const std::string block(4096, 'x');
    while (filler.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  const JournalEntry entry = PushOf(21, 20000);
  const auto append = [&] { return journal->Append(21, {&entry, 1}); };
  const auto names = [&] {
    std::set<std::string> names;
    for (const auto& file : fs::directory_iterator(root_ + "/shard-0/log"))
      names.insert(file.path().filename());
    return names;
  };
  EXPECT_TRUE(absl::IsResourceExhausted(append()));
  const auto before = names();
  for (int i = 0; i < 20; ++i) {
    const absl::Status full = append();
    EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
    std::this_thread::sleep_for(Reopening::kFirstPause);
  }
  EXPECT_EQ(names(), before);
  fs::remove(root_ + "/filler");
  const Time freed = SteadyNow();
  absl::Status written = append();
  while (!written.ok() && SteadyNow() < freed + 2 * Reopening::kLongestPause) written = append();
  EXPECT_TRUE(written.ok()) << written;
  Append(*journal, 22, 4, 20000);
  EXPECT_EQ(Read(*journal, 0)->size(), 25u);
  journal.reset();
  auto again = RocksJournal::Open(Options());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Read(**again, 0)->size(), 25u);
  again->reset();
  EXPECT_EQ(umount2(root_.c_str(), MNT_DETACH), 0);
}

TEST(FromRocks, AQuotaThatIsUsedUpIsAFullDisk) {
  for (const int error : {ENOSPC, EDQUOT, EIO}) {
    const auto status = error == ENOSPC
                            ? rocksdb::Status::NoSpace()
                            : rocksdb::Status::IOError("While appending to file: /x/000004.log",
                                                       std::strerror(error));
    EXPECT_EQ(absl::IsResourceExhausted(FromRocks(status, "/")), error != EIO) << error;
  }
}

TEST(FromRocks, AFileThatCannotBeOpenedNamesTheLimit) {
  const auto status = rocksdb::Status::IOError("While open a file for appending: /x/000004.log",
                                               std::strerror(EMFILE));
  EXPECT_THAT(std::string(FromRocks(status, "/").message()),
              testing::HasSubstr("files open and may have"));
}

TEST_F(RocksJournalTest, AJournalThatIsNotThereIsAnError) {
  const auto journal = RocksJournal::Open(Options());
  EXPECT_FALSE(journal.ok());
  EXPECT_THAT(std::string(journal.status().message()), testing::HasSubstr(root_));
}

}  // namespace
}  // namespace psgd
