#include "server/checkpoint_database.h"

#include <rocksdb/sst_file_writer.h>

#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "server/checkpoint_files.h"
#include "server/checkpoint_format.h"
#include "server/rocks.h"

namespace psgd {
namespace {

rocksdb::Options DatabaseOptions() {
  rocksdb::Options options = PlainDatabase();
  options.write_buffer_size = 64 << 10;  // nothing goes through it
  return options;
}

ByteSpan SpanOf(const std::string& text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

// All pairs in the order of their keys; records are serialised, arrays referenced.
std::map<std::array<char, kValueKeySize>, Bytes> PairsOf(const ShardSnapshot& snapshot) {
  std::map<std::array<char, kValueKeySize>, Bytes> pairs;
  for (const SliceSnapshot& slice : snapshot.slices) {
    SliceRecord record;
    *record.mutable_spec() = slice.spec;
    record.set_parameter(slice.parameter);
    record.set_version(slice.version);
    record.set_steps(slice.steps);
    for (uint32_t i = 0; i < slice.states.size(); ++i) {
      record.add_states(slice.states[i].first);
      pairs[EncodeKey({ValueKind::kState, slice.id, i})] = slice.states[i].second;
    }
    pairs[EncodeKey({ValueKind::kSlice, slice.id})] =
        Bytes::CopyOf(SpanOf(record.SerializeAsString()));
    pairs[EncodeKey({ValueKind::kWeights, slice.id})] = slice.weights;
  }
  for (const auto& [worker, residuals] : snapshot.residuals) {
    for (const auto& [slice, values] : residuals) {
      pairs[EncodeKey({ValueKind::kResidual, worker, slice})] = values;
    }
  }
  for (const auto& [worker, shown] : snapshot.shown) {
    for (const auto& [slice, values] : shown) {
      pairs[EncodeKey({ValueKind::kShown, worker, slice})] = values;
    }
  }
  for (const auto& [worker, mark] : snapshot.workers) {
    pairs[EncodeKey({ValueKind::kWorker, worker})] =
        Bytes::CopyOf(SpanOf(mark.SerializeAsString()));
  }
  return pairs;
}

// What a shard's contents are as one number: all keys with the checksums of their values, in order.
void AddToContents(absl::string_view key, uint64_t value_checksum, Checksum* contents) {
  contents->Add(std::as_bytes(std::span<const char>(key.data(), key.size())));
  contents->Add(std::as_bytes(std::span<const uint64_t>(&value_checksum, 1)));
}

absl::Status WriteTable(const std::string& path, const ShardSnapshot& snapshot,
                        ShardReceipt* receipt) {
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), DatabaseOptions());
  PSGD_RETURN_IF_ERROR(FromRocks(writer.Open(path), path));
  Checksum contents;
  std::string value;
  for (const auto& [key, bytes] : PairsOf(snapshot)) {
    const absl::string_view encoded(key.data(), key.size());
    AddToContents(encoded, EncodeValue(encoded, bytes.span(), &value), &contents);
    PSGD_RETURN_IF_ERROR(FromRocks(writer.Put({key.data(), key.size()}, value), path));
    receipt->set_values(receipt->values() + 1);
  }
  receipt->set_content_checksum(contents.Value());
  // A table cannot be empty; a shard without slices has an empty database.
  return receipt->values() == 0 ? absl::OkStatus() : FromRocks(writer.Finish(), path);
}

absl::StatusOr<std::unique_ptr<rocksdb::DB>> Own(const rocksdb::Status& status, rocksdb::DB* db,
                                                 const std::string& folder) {
  PSGD_RETURN_IF_ERROR(FromRocks(status, folder));
  return std::unique_ptr<rocksdb::DB>(db);
}

// Puts one value where it belongs. Keys come in order, so that a slice's record precedes its
// arrays.
absl::Status Absorb(const ValueKey& key, absl::string_view contents,
                    std::map<uint32_t, SliceSnapshot>* slices, ShardSnapshot* snapshot) {
  const auto bytes = [&] {
    return Bytes::CopyOf(std::as_bytes(std::span<const char>(contents.data(), contents.size())));
  };
  const auto size = static_cast<int>(contents.size());
  const auto slice = slices->find(key.first);
  switch (key.kind) {
    case ValueKind::kSlice: {
      SliceRecord record;
      if (!record.ParseFromArray(contents.data(), size)) break;
      SliceSnapshot& made = (*slices)[key.first];
      made.id = key.first;
      made.spec = record.spec();
      made.parameter = record.parameter();
      made.version = record.version();
      made.steps = record.steps();
      for (const std::string& name : record.states()) made.states.emplace_back(name, Bytes());
      return absl::OkStatus();
    }
    case ValueKind::kWeights:
      if (slice == slices->end()) break;
      slice->second.weights = bytes();
      return absl::OkStatus();
    case ValueKind::kState:
      if (slice == slices->end() || key.second >= slice->second.states.size()) break;
      slice->second.states[key.second].second = bytes();
      return absl::OkStatus();
    case ValueKind::kResidual:
      snapshot->residuals[key.first].emplace_back(key.second, bytes());
      return absl::OkStatus();
    case ValueKind::kShown:
      snapshot->shown[key.first].emplace_back(key.second, bytes());
      return absl::OkStatus();
    case ValueKind::kWorker:
      if (!snapshot->workers[key.first].ParseFromArray(contents.data(), size)) break;
      return absl::OkStatus();
  }
  return absl::DataLossError("fits no slice of the shard");
}

}  // namespace

absl::StatusOr<ShardReceipt> WriteShardDatabase(const std::string& folder, uint32_t shard,
                                                const ShardSnapshot& snapshot) {
  ShardReceipt receipt;
  receipt.set_shard(shard);
  if (FileExists(folder)) return absl::AlreadyExistsError(folder + " exists already");
  const std::string table = folder + ".sst";
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
  return receipt;
}

absl::StatusOr<ShardSnapshot> ReadShardDatabase(const std::string& folder,
                                                const ShardReceipt& receipt) {
  PSGD_RETURN_IF_ERROR(VerifyFiles(folder, receipt.files()));
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(DatabaseOptions(), folder, &opened);
  PSGD_ASSIGN_OR_RETURN(const auto db, Own(status, opened, folder));

  ShardSnapshot snapshot;
  std::map<uint32_t, SliceSnapshot> slices;
  Checksum contents;
  uint64_t values = 0;
  const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator(rocksdb::ReadOptions()));
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    const absl::string_view encoded(at->key().data(), at->key().size());
    auto key = DecodeKey(encoded);
    if (!key.ok()) return Annotate(key.status(), folder);
    const std::string where = absl::StrCat(folder, ": ", Describe(*key));
    auto value = DecodeValue(encoded, {at->value().data(), at->value().size()});
    if (!value.ok()) return Annotate(value.status(), where);
    AddToContents(encoded, value->checksum, &contents);
    ++values;
    absl::Status absorbed = Absorb(*key, value->contents, &slices, &snapshot);
    if (!absorbed.ok()) return Annotate(absorbed, where);
  }
  PSGD_RETURN_IF_ERROR(FromRocks(at->status(), folder));
  if (values != receipt.values() || contents.Value() != receipt.content_checksum()) {
    return absl::DataLossError(absl::StrCat(folder, " holds ", values, " values that are not the ",
                                            receipt.values(), " of the checkpoint"));
  }
  for (auto& [id, slice] : slices) snapshot.slices.push_back(std::move(slice));
  return snapshot;
}

}  // namespace psgd
