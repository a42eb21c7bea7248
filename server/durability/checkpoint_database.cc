#include "server/durability/checkpoint_database.h"

#include <rocksdb/sst_file_writer.h>

#include <map>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "server/durability/checkpoint_files.h"
#include "server/durability/checkpoint_format.h"
#include "server/durability/rocks.h"
#include "server/durability/snapshot_reader.h"

namespace psgd {
namespace {

rocksdb::Options DatabaseOptions() {
  rocksdb::Options options = PlainDatabase();
  options.write_buffer_size = 64 << 10;  // unused: tables are written directly
  return options;
}

// All pairs in the order of the database. Records are serialized, arrays referenced.
std::map<ValueKey, Bytes> PairsOf(const ShardSnapshot& snapshot) {
  std::map<ValueKey, Bytes> pairs;
  for (const SliceSnapshot& slice : snapshot.slices) {
    SliceRecord record;
    *record.mutable_spec() = slice.spec;
    record.set_parameter(slice.parameter);
    record.set_version(slice.version);
    record.set_steps(slice.steps);
    for (uint32_t i = 0; i < slice.states.size(); ++i) {
      record.add_states(slice.states[i].first);
      pairs[{ValueKind::kState, slice.id, i}] = slice.states[i].second;
    }
    pairs[{ValueKind::kSlice, slice.id}] = Bytes::CopyOf(AsBytes(record.SerializeAsString()));
    pairs[{ValueKind::kWeights, slice.id}] = slice.weights;
  }
  for (const auto& [worker, residuals] : snapshot.residuals) {
    for (const auto& [slice, values] : residuals) {
      pairs[{ValueKind::kResidual, worker, slice}] = values;
    }
  }
  for (const auto& [worker, shown] : snapshot.shown) {
    for (const auto& [slice, values] : shown) {
      pairs[{ValueKind::kShown, worker, slice}] = values;
    }
  }
  return pairs;
}

absl::Status WriteTable(const std::string& path, const ShardSnapshot& snapshot,
                        ShardReceipt* receipt) {
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), DatabaseOptions());
  PSGD_RETURN_IF_ERROR(FromRocks(writer.Open(path), path));
  PSGD_RETURN_IF_ERROR(
      ForEachPair(snapshot, receipt, [&](absl::string_view key, const std::string& value) {
        return FromRocks(writer.Put({key.data(), key.size()}, value), path);
      }));
  // A table cannot be empty; a shard without slices has an empty database.
  return receipt->values() == 0 ? absl::OkStatus() : FromRocks(writer.Finish(), path);
}

absl::StatusOr<std::unique_ptr<rocksdb::DB>> Own(const rocksdb::Status& status, rocksdb::DB* db,
                                                 const std::string& folder) {
  PSGD_RETURN_IF_ERROR(FromRocks(status, folder));
  return std::unique_ptr<rocksdb::DB>(db);
}

}  // namespace

absl::Status ForEachPair(
    const ShardSnapshot& snapshot, ShardReceipt* receipt,
    const std::function<absl::Status(absl::string_view key, const std::string& value)>& take) {
  Checksum contents;
  std::string value;
  for (const auto& [key, bytes] : PairsOf(snapshot)) {
    const auto bytes_of_key = EncodeKey(key);
    const absl::string_view encoded(bytes_of_key.data(), bytes_of_key.size());
    AddToContents(encoded, EncodeValue(encoded, bytes.span(), &value), &contents);
    PSGD_RETURN_IF_ERROR(take(encoded, value));
    receipt->set_values(receipt->values() + 1);
  }
  receipt->set_content_checksum(contents.Value());
  return absl::OkStatus();
}

absl::StatusOr<ShardReceipt> WriteShardDatabase(const std::string& folder, uint32_t shard,
                                                const ShardSnapshot& snapshot) {
  ShardReceipt receipt;
  receipt.set_shard(shard);
  if (FileExists(folder)) return absl::AlreadyExistsError(folder + " exists already");
  const std::string table = folder + ".sst";
  // What a failed attempt wrote would take room, and be in the way of the next attempt.
  auto remove = absl::MakeCleanup([&] {
    for (const std::string& left : {folder, table}) (void)RemoveFolder(left);
  });
  PSGD_RETURN_IF_ERROR(WriteTable(table, snapshot, &receipt));
  {
    rocksdb::Options options = DatabaseOptions();
    options.create_if_missing = true;
    options.error_if_exists = true;
    rocksdb::DB* opened = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(options, folder, &opened);
    PSGD_ASSIGN_OR_RETURN(const auto db, Own(status, opened, folder));
    if (receipt.values() != 0) {
      rocksdb::IngestExternalFileOptions ingest;
      ingest.move_files = true;
      PSGD_RETURN_IF_ERROR(FromRocks(db->IngestExternalFile({table}, ingest), folder));
    }
    PSGD_RETURN_IF_ERROR(FromRocks(db->Close(), folder));
  }
  PSGD_RETURN_IF_ERROR(RemoveFolder(table));
  PSGD_ASSIGN_OR_RETURN(const auto files, SyncAndList(folder));
  for (const CheckpointFile& file : files) {
    receipt.set_bytes(receipt.bytes() + file.bytes());
    *receipt.add_files() = file;
  }
  std::move(remove).Cancel();
  return receipt;
}

absl::StatusOr<ShardSnapshot> ReadShardDatabase(const std::string& folder,
                                                const ShardReceipt& receipt) {
  PSGD_RETURN_IF_ERROR(VerifyFiles(folder, receipt.files()));
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(DatabaseOptions(), folder, &opened);
  PSGD_ASSIGN_OR_RETURN(const auto db, Own(status, opened, folder));

  SnapshotReader reader;
  const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator(rocksdb::ReadOptions()));
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    const absl::Status added =
        reader.Add({at->key().data(), at->key().size()}, {at->value().data(), at->value().size()});
    if (!added.ok()) return Annotate(added, folder);
  }
  PSGD_RETURN_IF_ERROR(FromRocks(at->status(), folder));
  auto snapshot = reader.Finish(receipt);
  if (!snapshot.ok()) return Annotate(snapshot.status(), folder);
  return snapshot;
}

}  // namespace psgd
