#include "server/durability/rocks_run_store.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/durability/checkpoint_files.h"
#include "server/durability/checkpoint_format.h"
#include "server/durability/rocks.h"
#include "server/durability/rocks_log_check.h"

namespace psgd {
namespace {

constexpr char kRecordKey[] = "record";
constexpr char kPlanKey[] = "plan";
constexpr char kEarlierKey[] = "coordinator";  // of versions without copies of shards
constexpr size_t kRevisionBytes = sizeof(int64_t);

// The revision, followed by the record.
std::string WithRevision(int64_t revision, const RunRecord& record) {
  std::string text(kRevisionBytes, '\0');
  std::memcpy(text.data(), &revision, kRevisionBytes);
  record.AppendToString(&text);
  return text;
}

}  // namespace

RocksRunStore::RocksRunStore(std::string folder, bool sync)
    : folder_(std::move(folder)), sync_(sync), reopening_(folder_) {}

RocksRunStore::~RocksRunStore() {
  if (db_ != nullptr) (void)db_->Close();
}

absl::StatusOr<std::unique_ptr<RocksRunStore>> RocksRunStore::Create(const std::string& folder,
                                                                     bool sync) {
  PSGD_RETURN_IF_ERROR(RemoveFolder(folder));
  PSGD_RETURN_IF_ERROR(MakeFolders(folder));
  std::unique_ptr<RocksRunStore> store(new RocksRunStore(folder, sync));
  PSGD_RETURN_IF_ERROR(store->OpenDatabase(true));
  return store;
}

absl::StatusOr<std::unique_ptr<RocksRunStore>> RocksRunStore::Open(const std::string& folder,
                                                                   bool sync) {
  PSGD_RETURN_IF_ERROR(CheckLogEnds(folder));
  std::unique_ptr<RocksRunStore> store(new RocksRunStore(folder, sync));
  PSGD_RETURN_IF_ERROR(store->OpenDatabase(false));
  PSGD_RETURN_IF_ERROR(store->Read().status());
  return store;
}

absl::StatusOr<RunStore::Held> RocksRunStore::Check(const std::string& folder,
                                                    std::vector<std::string>* damage) {
  *damage = FindLogDamage(folder, LogExtent::kWhole);
  RocksRunStore store(folder, false);
  rocksdb::DB* db = nullptr;
  PSGD_RETURN_IF_ERROR(
      FromRocks(rocksdb::DB::OpenForReadOnly(PlainDatabase(), folder, &db), folder));
  store.db_.reset(db);
  const absl::Status tables = FromRocks(db->VerifyChecksum(), folder);
  if (!tables.ok()) damage->emplace_back(tables.message());
  return store.Read();
}

absl::Status RocksRunStore::OpenDatabase(bool create) {
  rocksdb::Options options = PlainDatabase();
  options.create_if_missing = create;
  options.disable_auto_compactions = false;  // the same keys are written again and again
  options.write_buffer_size = 4 << 20;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  rocksdb::DB* db = nullptr;
  PSGD_RETURN_IF_ERROR(FromRocks(rocksdb::DB::Open(options, folder_, &db), folder_));
  db_.reset(db);
  return absl::OkStatus();
}

absl::Status RocksRunStore::Reopen() {
  if (db_ != nullptr) return absl::OkStatus();
  return reopening_.Try([this] { return OpenDatabase(false); });
}

absl::StatusOr<std::string> RocksRunStore::Load(const char* key) const {
  std::string value;
  const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), key, &value);
  if (status.IsNotFound()) return NotFoundError(folder_, " has no ", key);
  PSGD_RETURN_IF_ERROR(FromRocks(status, folder_));
  auto decoded = DecodeValue(key, value);
  if (!decoded.ok()) return Annotate(decoded.status(), absl::StrCat(folder_, ": the ", key));
  return std::string(decoded->contents);
}

absl::StatusOr<RunStore::Held> RocksRunStore::ReadNow() const {
  const absl::StatusOr<std::string> text = Load(kRecordKey);
  if (absl::IsNotFound(text.status())) {
    std::string earlier;
    if (!db_->Get(rocksdb::ReadOptions(), kEarlierKey, &earlier).ok()) return Held{};
    return FailedPreconditionError(
        folder_,
        " was written by an earlier version of psgd, whose journal this one cannot go on from: go "
        "on from the run's last checkpoint with ps-run --resume");
  }
  PSGD_RETURN_IF_ERROR(text.status());
  Held held;
  if (text->size() < kRevisionBytes ||
      !held.record.ParseFromArray(text->data() + kRevisionBytes,
                                  static_cast<int>(text->size() - kRevisionBytes))) {
    return DataLossError(folder_, " holds no record of a run");
  }
  std::memcpy(&held.revision, text->data(), kRevisionBytes);
  return held;
}

absl::StatusOr<RunStore::Held> RocksRunStore::Read() {
  std::lock_guard lock(mutex_);
  PSGD_RETURN_IF_ERROR(Reopen());
  return ReadNow();
}

absl::StatusOr<RunPlan> RocksRunStore::ReadPlan() {
  std::lock_guard lock(mutex_);
  PSGD_RETURN_IF_ERROR(Reopen());
  PSGD_ASSIGN_OR_RETURN(const std::string text, Load(kPlanKey));
  RunPlan plan;
  if (!plan.ParseFromString(text)) {
    return DataLossError(folder_, " holds no plan of a run");
  }
  return plan;
}

absl::StatusOr<int64_t> RocksRunStore::Write(int64_t revision, const RunRecord& next,
                                             const RunPlan* plan, As) {
  std::lock_guard lock(mutex_);
  PSGD_RETURN_IF_ERROR(Reopen());
  PSGD_ASSIGN_OR_RETURN(const Held held, ReadNow());
  if (held.revision != revision) {
    // An earlier try of the same change succeeded, but its answer was lost.
    if (BytesOf(held.record) == BytesOf(next)) return held.revision;
    return absl::AbortedError(absl::StrCat(folder_, ": another server leads the run by now"));
  }
  rocksdb::WriteBatch batch;
  const auto put = [&](const char* key, const std::string& contents) {
    std::string value;
    EncodeValue(key, AsBytes(contents), &value);
    (void)batch.Put(key, value);
  };
  put(kRecordKey, WithRevision(revision + 1, next));
  if (plan != nullptr) put(kPlanKey, plan->SerializeAsString());
  rocksdb::WriteOptions options;
  // A record without a plan says that training had not begun, also after a power loss.
  options.sync = sync_ || plan != nullptr;
  const absl::Status written = FromRocks(db_->Write(options, &batch), folder_);
  if (written.ok()) return revision + 1;
  db_.reset();
  reopening_.Failed(written, SteadyNow());
  // The write may be on disk nevertheless.
  return absl::UnavailableError(written.message());
}

absl::Status RocksRunStore::Keep(uint64_t epoch) {
  PSGD_ASSIGN_OR_RETURN(const Held held, Read());
  if (held.record.epoch() == epoch) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(folder_, ": another server leads the run by now"));
}

// The record stays: it says that the run is over.
absl::Status RocksRunStore::Remove(int64_t) { return absl::OkStatus(); }

}  // namespace psgd
