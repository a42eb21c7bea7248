#include "server/durability/rocks_journal.h"

#include <rocksdb/write_batch.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/files.h"
#include "server/durability/checkpoint_database.h"
#include "server/durability/checkpoint_files.h"
#include "server/durability/journal_folder.h"
#include "server/durability/journal_format.h"
#include "server/durability/rocks.h"
#include "server/durability/rocks_log_check.h"

namespace psgd {
namespace {

constexpr absl::string_view kLogPrefix = "log-";
constexpr absl::string_view kImagePrefix = "image";

constexpr char kSystemsMachineStart[] = "/proc/sys/kernel/random/boot_id";

rocksdb::Slice SliceOf(const JournalKey& key) { return {key.data(), key.size()}; }
absl::string_view ViewOf(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

rocksdb::Options JournalOptions() {
  rocksdb::Options options = PlainDatabase();
  options.write_buffer_size = 64 << 20;
  options.max_write_buffer_number = 6;  // a burst does not wait until the last burst is in tables
  // Whole logs are dropped instead of compacted, so the number of files does not matter.
  options.level0_slowdown_writes_trigger = options.level0_stop_writes_trigger = 1 << 30;
  // A last write that a crash cut off was never acknowledged. Damage before it is an error.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.avoid_flush_during_recovery = true;
  return options;
}

}  // namespace

RocksJournal::RocksJournal(RocksJournalOptions options)
    : options_(std::move(options)), reopening_(LogFolder()) {}

RocksJournal::~RocksJournal() {
  logs_.clear();
  if (db_ != nullptr) (void)db_->Close();  // acknowledged steps are written already
}

std::string RocksJournal::LogFolder() const { return absl::StrCat(options_.folder, "/log"); }

std::string RocksJournal::ImageFolder(uint64_t entry) const {
  return NumberedFolder(options_.folder, kImagePrefix, entry);
}

absl::StatusOr<std::unique_ptr<RocksJournal>> RocksJournal::Create(RocksJournalOptions options) {
  PSGD_RETURN_IF_ERROR(DiscardFolder(options.folder));
  PSGD_RETURN_IF_ERROR(MakeFolders(options.folder));
  std::unique_ptr<RocksJournal> journal(new RocksJournal(std::move(options)));
  PSGD_RETURN_IF_ERROR(journal->OpenDatabase(Opening::kCreate));
  journal->NoteMachineStart();
  return journal;
}

absl::StatusOr<std::unique_ptr<RocksJournal>> RocksJournal::Open(RocksJournalOptions options) {
  std::unique_ptr<RocksJournal> journal(new RocksJournal(std::move(options)));
  PSGD_RETURN_IF_ERROR(CheckShardThere(journal->options_.folder));
  PSGD_RETURN_IF_ERROR(CheckLogEnds(journal->LogFolder()));
  // RocksDB syncs the log that it writes, not the logs that it finds. Only the operating system may
  // have entries that the last process wrote without sync, and this process will acknowledge them.
  if (journal->options_.sync) PSGD_RETURN_IF_ERROR(SyncFiles(journal->LogFolder()));
  PSGD_RETURN_IF_ERROR(journal->OpenDatabase(Opening::kGoOn));
  PSGD_RETURN_IF_ERROR(journal->CheckShard());
  journal->NoteMachineStart();
  return journal;
}

void RocksJournal::NoteMachineStart() {
  std::string now = options_.machine_start;
  if (now.empty()) now = ReadSmallFile(kSystemsMachineStart, 256).value_or("");
  if (now.empty()) return;  // the system does not tell
  const std::string file = options_.folder + kMachineStartFile;
  const auto last = ReadSmallFile(file, 256);
  if (last.ok() && *last == now) return;
  machine_started_anew_ = last.ok();
  (void)WriteFileAtomically(file, now);  // if this fails, the next Open notes a restart again
}

absl::Status RocksJournal::OpenDatabase(Opening opening) {
  rocksdb::Options options = JournalOptions();
  options.create_if_missing = opening == Opening::kCreate;
  std::vector<std::string> names = {rocksdb::kDefaultColumnFamilyName};
  if (opening != Opening::kCreate) {
    names.clear();
    PSGD_RETURN_IF_ERROR(
        FromRocks(rocksdb::DB::ListColumnFamilies(options, LogFolder(), &names), LogFolder()));
  }
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) families.emplace_back(name, options);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  PSGD_RETURN_IF_ERROR(
      FromRocks(opening == Opening::kReadOnly
                    ? rocksdb::DB::OpenForReadOnly(options, LogFolder(), families, &handles, &db)
                    : rocksdb::DB::Open(options, LogFolder(), families, &handles, &db),
                LogFolder()));
  db_.reset(db);
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    std::unique_ptr<rocksdb::ColumnFamilyHandle> owned(handle);
    uint64_t first = 0;
    absl::string_view name = handle->GetName();
    if (absl::ConsumePrefix(&name, kLogPrefix) && absl::SimpleAtoi(name, &first)) {
      logs_[first] = std::move(owned);
    } else {
      (void)db_->DestroyColumnFamilyHandle(
          owned.release());  // the default column family belongs to the database
    }
  }
  return absl::OkStatus();
}

absl::Status RocksJournal::BeginLog(uint64_t first) {
  if (failed_) PSGD_RETURN_IF_ERROR(Reopen());
  std::lock_guard lock(mutex_);
  if (logs_.count(first) > 0) return absl::OkStatus();
  rocksdb::ColumnFamilyHandle* handle = nullptr;
  PSGD_RETURN_IF_ERROR(
      FromRocks(db_->CreateColumnFamily(JournalOptions(), absl::StrCat(kLogPrefix, first), &handle),
                LogFolder()));
  logs_[first].reset(handle);
  return absl::OkStatus();
}

absl::Status RocksJournal::Append(uint64_t first, std::span<const JournalEntry> entries) {
  if (failed_) PSGD_RETURN_IF_ERROR(Reopen());
  rocksdb::ColumnFamilyHandle* log = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (logs_.empty()) return absl::FailedPreconditionError("the journal has no log yet");
    log = logs_.rbegin()->second.get();
  }
  rocksdb::WriteBatch batch;
  for (size_t i = 0; i < entries.size(); ++i) {
    const JournalKey key = EncodeJournalKey(JournalKind::kEntry, first + i);
    EncodeEntry(key, entries[i], &value_);
    PSGD_RETURN_IF_ERROR(FromRocks(batch.Put(log, SliceOf(key), value_), LogFolder()));
  }
  rocksdb::WriteOptions options;
  options.sync = options_.sync;
  Reach(options_.failpoint.get(), Failpoint::kJournalWriting);
  const absl::Status written = FromRocks(db_->Write(options, &batch), LogFolder());
  Reach(options_.failpoint.get(), Failpoint::kJournalWritten);
  failed_ = !written.ok();
  if (failed_) reopening_.Failed(written, SteadyNow());
  return written;
}

absl::Status RocksJournal::Reopen() {
  PSGD_RETURN_IF_ERROR(reopening_.Try([this] {
    std::lock_guard lock(mutex_);
    logs_.clear();
    db_.reset();
    return OpenDatabase(Opening::kGoOn);
  }));
  failed_ = false;
  return absl::OkStatus();
}

absl::Status RocksJournal::CheckOpen() const {
  if (db_ != nullptr) return absl::OkStatus();
  return UnavailableError(LogFolder(), " cannot be opened");
}

absl::Status RocksJournal::RemoveUnfinishedTables() const {
  std::error_code error;
  for (std::filesystem::directory_iterator at(options_.folder, error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() == ".sst") PSGD_RETURN_IF_ERROR(RemoveFolder(at->path().string()));
  }
  return error ? FileError("list the journal", options_.folder, error.value()) : absl::OkStatus();
}

absl::Status RocksJournal::SaveImage(const ShardImage& image) {
  // Only one image is written at a time: a table here is left from a server that died.
  PSGD_RETURN_IF_ERROR(RemoveUnfinishedTables());
  const uint64_t entry = image.record.entry();
  Reach(options_.failpoint.get(), Failpoint::kImageBegun);
  PSGD_RETURN_IF_ERROR(RemoveFolder(ImageFolder(entry)));
  ShardRecord record = image.record;
  PSGD_ASSIGN_OR_RETURN(*record.mutable_receipt(),
                        WriteShardDatabase(ImageFolder(entry), options_.shard, image.arrays));
  PSGD_RETURN_IF_ERROR(SyncFolder(options_.folder));
  Reach(options_.failpoint.get(), Failpoint::kImageArrays);
  std::lock_guard lock(mutex_);
  PSGD_RETURN_IF_ERROR(CheckOpen());
  const JournalKey key = EncodeJournalKey(JournalKind::kImage, entry);
  std::string value;
  EncodeImage(key, record, &value);
  rocksdb::WriteOptions options;
  options.sync = true;
  PSGD_RETURN_IF_ERROR(FromRocks(db_->Put(options, SliceOf(key), value), LogFolder()));
  Reach(options_.failpoint.get(), Failpoint::kImageRecorded);
  damaged_.erase(entry);
  PSGD_ASSIGN_OR_RETURN(std::vector<uint64_t> images, Images());
  std::erase_if(images, [this](uint64_t image) { return damaged_.contains(image); });
  return images.size() > 1 ? Trim(images[1]) : absl::OkStatus();
}

absl::StatusOr<std::vector<uint64_t>> RocksJournal::Images() const {
  PSGD_RETURN_IF_ERROR(CheckOpen());
  std::vector<uint64_t> images;
  const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(rocksdb::ReadOptions()));
  for (at->SeekToLast(); at->Valid(); at->Prev()) {
    PSGD_ASSIGN_OR_RETURN(const uint64_t entry,
                          DecodeJournalKey(JournalKind::kImage, ViewOf(at->key())));
    images.push_back(entry);
  }
  PSGD_RETURN_IF_ERROR(FromRocks(at->status(), LogFolder()));
  return images;
}

absl::StatusOr<uint64_t> RocksJournal::LastEntryUpTo(uint64_t most) const {
  const JournalKey key = EncodeJournalKey(JournalKind::kEntry, most);
  uint64_t last = 0;
  for (const auto& [first, log] : logs_) {
    if (first > most) break;
    const std::unique_ptr<rocksdb::Iterator> at(
        db_->NewIterator(rocksdb::ReadOptions(), log.get()));
    at->SeekForPrev(SliceOf(key));
    PSGD_RETURN_IF_ERROR(FromRocks(at->status(), LogFolder()));
    if (!at->Valid()) continue;
    PSGD_ASSIGN_OR_RETURN(const uint64_t entry,
                          DecodeJournalKey(JournalKind::kEntry, ViewOf(at->key())));
    last = std::max(last, entry);
  }
  return last;
}

absl::Status RocksJournal::CheckLogReaches(const std::vector<uint64_t>& images) const {
  if (images.size() < 2) return absl::OkStatus();  // entries up to the oldest image are not kept
  PSGD_ASSIGN_OR_RETURN(const uint64_t last, LastEntryUpTo(images[0]));
  if (last == images[0]) return absl::OkStatus();
  return DataLossError(LogFolder(), " ends at entry ", last, ", before image ", images[0],
                       ": its end is gone. Was a file of it deleted or cut off? Go on from the "
                       "last checkpoint with ps-run --resume");
}

absl::Status RocksJournal::Trim(uint64_t entry) {
  PSGD_ASSIGN_OR_RETURN(const std::vector<uint64_t> images, Images());
  for (const uint64_t image : images) {
    if (image >= entry) continue;
    const JournalKey key = EncodeJournalKey(JournalKind::kImage, image);
    PSGD_RETURN_IF_ERROR(
        FromRocks(db_->Delete(rocksdb::WriteOptions(), SliceOf(key)), LogFolder()));
  }
  // Folders that no image names belong to images that were never finished.
  PSGD_ASSIGN_OR_RETURN(const auto folders, FolderIds(options_.folder, kImagePrefix));
  for (const uint64_t folder : folders) {
    if (folder < entry) PSGD_RETURN_IF_ERROR(RemoveFolder(ImageFolder(folder)));
  }
  while (logs_.size() > 1 && std::next(logs_.begin())->first <= entry + 1) {
    PSGD_RETURN_IF_ERROR(
        FromRocks(db_->DropColumnFamily(logs_.begin()->second.get()), LogFolder()));
    logs_.erase(logs_.begin());
  }
  // RocksDB keeps its own log while anything in it is in no table. Without this the images' records
  // would keep it for ever.
  return FromRocks(db_->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr),
                   LogFolder());
}

absl::StatusOr<ShardRecord> RocksJournal::ReadRecord(uint64_t entry) const {
  PSGD_RETURN_IF_ERROR(CheckOpen());
  const JournalKey key = EncodeJournalKey(JournalKind::kImage, entry);
  std::string value;
  PSGD_RETURN_IF_ERROR(
      FromRocks(db_->Get(rocksdb::ReadOptions(), SliceOf(key), &value), LogFolder()));
  auto record = DecodeImage(key, value);
  if (!record.ok()) {
    return Annotate(record.status(), absl::StrCat(LogFolder(), ": the record of image ", entry));
  }
  return record;
}

absl::Status RocksJournal::CheckShard() const {
  PSGD_ASSIGN_OR_RETURN(const std::vector<uint64_t> images, Images());
  for (const uint64_t entry : images) {
    const auto record = ReadRecord(entry);
    // A damaged record says nothing, and is skipped later.
    if (!record.ok() || record->receipt().shard() == options_.shard) continue;
    return DataLossError(options_.folder, " holds the journal of shard ", record->receipt().shard(),
                         ", not of shard ", options_.shard,
                         "; were folders mixed up when they were restored from a copy? Rename each "
                         "to shard-N, N being the shard that it holds");
  }
  return absl::OkStatus();
}

absl::StatusOr<ShardImage> RocksJournal::ReadImage(uint64_t entry) const {
  ShardImage image;
  PSGD_ASSIGN_OR_RETURN(image.record, ReadRecord(entry));
  image.record.set_entry(entry);
  PSGD_ASSIGN_OR_RETURN(image.arrays,
                        ReadShardDatabase(ImageFolder(entry), image.record.receipt()));
  return image;
}

absl::StatusOr<ShardImage> RocksJournal::LoadImage(std::vector<std::string>* notes) {
  if (std::exchange(machine_started_anew_, false) && !options_.sync) {
    notes->push_back(
        "the machine was started anew, or is another, since this journal was written: what the "
        "operating system had not written to the disk is lost, which durability.acknowledge: "
        "journal allows (fsync would not). Workers that still run find out what they miss; what "
        "only workers pushed that are gone is trained without");
  }
  PSGD_ASSIGN_OR_RETURN(const std::vector<uint64_t> images, Images());
  absl::Status last = NotFoundError(options_.folder, " has no image: the shard never had a model");
  // Each image has its log. Without the log, the entries after the image are lost.
  if (!images.empty() && logs_.count(images[0] + 1) == 0) {
    return DataLossError(LogFolder(), " lacks the entries that follow image ", images[0]);
  }
  PSGD_RETURN_IF_ERROR(CheckLogReaches(images));
  for (const uint64_t entry : images) {
    auto image = ReadImage(entry);
    if (image.ok()) return image;
    last = image.status();
    {
      std::lock_guard lock(mutex_);
      damaged_.insert(entry);
    }
    notes->push_back(absl::StrCat("passed over: ", last.message()));
  }
  return last;
}

absl::Status RocksJournal::Replay(uint64_t entry,
                                  const std::function<absl::Status(const JournalEntry&)>& take) {
  uint64_t next = entry + 1;
  std::lock_guard lock(mutex_);
  PSGD_RETURN_IF_ERROR(CheckOpen());
  for (const auto& [first, log] : logs_) {
    const std::unique_ptr<rocksdb::Iterator> at(
        db_->NewIterator(rocksdb::ReadOptions(), log.get()));
    for (at->Seek(SliceOf(EncodeJournalKey(JournalKind::kEntry, next))); at->Valid(); at->Next()) {
      const std::string where = absl::StrCat(LogFolder(), ": entry ", next);
      PSGD_ASSIGN_OR_RETURN(const uint64_t number,
                            DecodeJournalKey(JournalKind::kEntry, ViewOf(at->key())));
      if (number != next) {
        return DataLossError(where, " is missing; the next is ", number);
      }
      const JournalKey key = EncodeJournalKey(JournalKind::kEntry, number);
      auto decoded = DecodeEntry(key, ViewOf(at->value()));
      if (!decoded.ok()) return Annotate(decoded.status(), where);
      Reach(options_.failpoint.get(), Failpoint::kReplaying);
      const absl::Status taken = take(*decoded);
      if (!taken.ok()) return Annotate(taken, where);
      ++next;
    }
    PSGD_RETURN_IF_ERROR(FromRocks(at->status(), LogFolder()));
  }
  return absl::OkStatus();
}

namespace {
constexpr size_t kMostEntriesNamed = 20;  // of the damaged entries
}  // namespace

JournalReport RocksJournal::Check(RocksJournalOptions options) {
  JournalReport report;
  if (const absl::Status there = CheckShardThere(options.folder); !there.ok()) {
    report.empty = report.recovers = absl::IsNotFound(there);
    if (report.empty) return report;
    report.damage.emplace_back(there.message());
    report.misplaced = !FileExists(options.folder) && !StrayFolders(options.folder).empty();
    return report;
  }
  RocksJournal journal(std::move(options));
  report.damage = FindLogDamage(journal.LogFolder(), LogExtent::kWhole);
  const absl::Status opened = journal.OpenDatabase(Opening::kReadOnly);
  if (!opened.ok()) {
    report.damage.emplace_back(opened.message());
    return report;
  }
  if (const absl::Status shard = journal.CheckShard(); !shard.ok()) {
    report.damage.emplace_back(shard.message());
    report.misplaced = journal.Images().ok();  // false: the journal's shard could not be read
    return report;
  }
  const absl::Status tables = FromRocks(journal.db_->VerifyChecksum(), journal.LogFolder());
  if (!tables.ok()) report.damage.emplace_back(tables.message());
  journal.CheckImages(&report);
  journal.CheckEntries(&report);
  // Recovers like a server, but carries out no steps.
  std::vector<std::string> notes;
  const auto image = journal.LoadImage(&notes);
  if (!CheckLogEnds(journal.LogFolder()).ok()) return report;
  report.unfinished = absl::IsNotFound(image.status());
  if (!image.ok()) return report;
  JournalMembers members(image->record);
  uint64_t number = image->record.entry();
  const absl::Status read = journal.Replay(image->record.entry(), [&](const JournalEntry& entry) {
    ++number;
    if (entry.earlier_rules && report.earlier_rules == 0) report.earlier_rules = number;
    members.Add(entry.head);
    return absl::OkStatus();
  });
  report.recovers = read.ok();
  if (read.ok() && !image->arrays.slices.empty()) report.clocks = members.Clocks();
  return report;
}

void RocksJournal::CheckImages(JournalReport* report) const {
  const auto images = Images();
  if (!images.ok()) {
    report->damage.emplace_back(images.status().message());
    return;
  }
  for (const uint64_t entry : *images) {
    const auto image = ReadImage(entry);
    if (image.ok()) {
      report->images.push_back(entry);
    } else {
      report->damage.push_back(absl::StrCat("image ", entry, ": ", image.status().message()));
    }
    if (logs_.count(entry + 1) == 0) {
      report->damage.push_back(
          absl::StrCat(LogFolder(), " lacks the entries that follow image ", entry));
    }
  }
  if (images->empty()) report->damage.push_back(absl::StrCat(options_.folder, " has no image"));
  if (const absl::Status reaches = CheckLogReaches(*images); !reaches.ok())
    report->damage.emplace_back(reaches.message());
}

void RocksJournal::CheckEntries(JournalReport* report) const {
  size_t damaged = 0;
  const auto note = [&](const std::string& what) {
    if (++damaged <= kMostEntriesNamed)
      report->damage.push_back(absl::StrCat(LogFolder(), ": ", what));
  };
  for (const auto& [first, log] : logs_) {
    const std::unique_ptr<rocksdb::Iterator> at(
        db_->NewIterator(rocksdb::ReadOptions(), log.get()));
    uint64_t next = report->last == 0 ? first : report->last + 1;
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      const auto number =
          DecodeJournalKey(JournalKind::kEntry, {at->key().data(), at->key().size()});
      if (!number.ok()) {
        note(absl::StrCat("after entry ", report->last, ": ", number.status().message()));
        continue;
      }
      if (*number != next) note(absl::StrCat("entry ", next, " is missing; the next is ", *number));
      const JournalKey key = EncodeJournalKey(JournalKind::kEntry, *number);
      const auto entry = DecodeEntry(key, {at->value().data(), at->value().size()});
      if (!entry.ok()) note(absl::StrCat("entry ", *number, " ", entry.status().message()));
      if (report->first == 0) report->first = *number;
      report->last = *number;
      next = *number + 1;
    }
    const absl::Status status = FromRocks(at->status(), LogFolder());
    if (!status.ok()) note(absl::StrCat("after entry ", report->last, ": ", status.message()));
  }
  if (damaged > kMostEntriesNamed) {
    report->damage.push_back(absl::StrCat(LogFolder(), ": ", damaged - kMostEntriesNamed,
                                          " more entries are damaged or missing"));
  }
}

}  // namespace psgd
