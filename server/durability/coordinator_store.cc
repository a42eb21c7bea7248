#include "server/durability/coordinator_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/durability/checkpoint_files.h"
#include "server/durability/checkpoint_format.h"
#include "server/durability/rocks.h"
#include "server/durability/rocks_log_check.h"

namespace psgd {
namespace {
constexpr char kKey[] = "coordinator";
}  // namespace

CoordinatorStore::CoordinatorStore(std::string folder) : folder_(std::move(folder)) {}

CoordinatorStore::~CoordinatorStore() {
  if (db_ != nullptr) (void)db_->Close();
}

absl::StatusOr<std::unique_ptr<CoordinatorStore>> CoordinatorStore::Create(
    const std::string& folder) {
  PSGD_RETURN_IF_ERROR(RemoveFolder(folder));
  PSGD_RETURN_IF_ERROR(MakeFolders(folder));
  std::unique_ptr<CoordinatorStore> store(new CoordinatorStore(folder));
  PSGD_RETURN_IF_ERROR(store->OpenDatabase(true));
  return store;
}

absl::StatusOr<std::unique_ptr<CoordinatorStore>> CoordinatorStore::Open(
    const std::string& folder) {
  PSGD_RETURN_IF_ERROR(CheckLogEnds(folder));
  std::unique_ptr<CoordinatorStore> store(new CoordinatorStore(folder));
  PSGD_RETURN_IF_ERROR(store->OpenDatabase(false));
  return store;
}

absl::StatusOr<CoordinatorRecord> CoordinatorStore::Check(const std::string& folder,
                                                          std::vector<std::string>* damage) {
  *damage = FindLogDamage(folder, LogExtent::kWhole);
  CoordinatorStore store(folder);
  rocksdb::DB* db = nullptr;
  PSGD_RETURN_IF_ERROR(
      FromRocks(rocksdb::DB::OpenForReadOnly(PlainDatabase(), folder, &db), folder));
  store.db_.reset(db);
  const absl::Status tables = FromRocks(db->VerifyChecksum(), folder);
  if (!tables.ok()) damage->emplace_back(tables.message());
  return store.Load();
}

absl::Status CoordinatorStore::OpenDatabase(bool create) {
  rocksdb::Options options = PlainDatabase();
  options.create_if_missing = create;
  options.disable_auto_compactions = false;  // the same key again and again
  options.write_buffer_size = 4 << 20;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  rocksdb::DB* db = nullptr;
  PSGD_RETURN_IF_ERROR(FromRocks(rocksdb::DB::Open(options, folder_, &db), folder_));
  db_.reset(db);
  return absl::OkStatus();
}

absl::Status CoordinatorStore::Save(const CoordinatorRecord& record, bool sync) {
  const std::string contents = record.SerializeAsString();
  std::string value;
  EncodeValue(kKey, AsBytes(contents), &value);
  rocksdb::WriteOptions options;
  options.sync = sync;
  // After a failed write RocksDB takes no more for as long as it sees fit: it is opened anew.
  if (db_ == nullptr) PSGD_RETURN_IF_ERROR(OpenDatabase(false));
  const absl::Status status = FromRocks(db_->Put(options, kKey, value), folder_);
  if (!status.ok()) db_.reset();
  return status;
}

absl::StatusOr<CoordinatorRecord> CoordinatorStore::Load() const {
  std::string value;
  const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), kKey, &value);
  if (status.IsNotFound()) {
    return absl::NotFoundError(
        "training had not begun, so there is nothing to go on from: start "
        "the run again");
  }
  PSGD_RETURN_IF_ERROR(FromRocks(status, folder_));
  auto decoded = DecodeValue(kKey, value);
  if (!decoded.ok()) return Annotate(decoded.status(), absl::StrCat(folder_, ": the coordinator"));
  CoordinatorRecord record;
  const absl::string_view contents = decoded->contents;
  if (!record.ParseFromArray(contents.data(), static_cast<int>(contents.size()))) {
    return absl::DataLossError(absl::StrCat(folder_, " holds no coordinator"));
  }
  return record;
}

absl::Status CheckJournalEnd(const CoordinatorRecord& record, uint32_t shard, uint64_t entries) {
  const int index = static_cast<int>(shard);
  const uint64_t had = index < record.shard_entries_size() ? record.shard_entries(index) : 0;
  if (entries >= had) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the journal of shard ", shard, " ends at entry ", entries,
                   ", and the coordinator's record says that it had entry ", had,
                   ": its end is gone. Was a file of it deleted or cut off, or did the machine "
                   "lose power? Go on from the last "
                   "checkpoint with ps-run --resume"));
}

}  // namespace psgd
