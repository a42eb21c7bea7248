#include "server/durability/snapshot_reader.h"

namespace psgd {

void AddToContents(absl::string_view key, uint64_t value_checksum, Checksum* contents) {
  contents->Add(std::as_bytes(std::span<const char>(key.data(), key.size())));
  contents->Add(std::as_bytes(std::span<const uint64_t>(&value_checksum, 1)));
}

absl::Status SnapshotReader::Add(absl::string_view encoded, absl::string_view stored) {
  PSGD_ASSIGN_OR_RETURN(const ValueKey key, DecodeKey(encoded));
  const auto value = DecodeValue(encoded, stored);
  if (!value.ok()) return Annotate(value.status(), Describe(key));
  AddToContents(encoded, value->checksum, &contents_);
  ++values_;
  return Annotate(Absorb(key, value->contents), Describe(key));
}

absl::Status SnapshotReader::Absorb(const ValueKey& key, absl::string_view contents) {
  const auto bytes = [&] {
    return Bytes::CopyOf(std::as_bytes(std::span<const char>(contents.data(), contents.size())));
  };
  const auto size = static_cast<int>(contents.size());
  const auto slice = slices_.find(key.first);
  switch (key.kind) {
    case ValueKind::kSlice: {
      SliceRecord record;
      if (!record.ParseFromArray(contents.data(), size)) break;
      SliceSnapshot& made = slices_[key.first];
      made = SliceSnapshot();
      made.id = key.first;
      made.spec = record.spec();
      made.parameter = record.parameter();
      made.version = record.version();
      made.steps = record.steps();
      for (const std::string& name : record.states()) made.states.emplace_back(name, Bytes());
      return absl::OkStatus();
    }
    case ValueKind::kWeights:
      if (slice == slices_.end()) break;
      slice->second.weights = bytes();
      return absl::OkStatus();
    case ValueKind::kState:
      if (slice == slices_.end() || key.second >= slice->second.states.size()) break;
      slice->second.states[key.second].second = bytes();
      return absl::OkStatus();
    case ValueKind::kResidual:
      snapshot_.residuals[key.first].emplace_back(key.second, bytes());
      return absl::OkStatus();
    case ValueKind::kShown:
      snapshot_.shown[key.first].emplace_back(key.second, bytes());
      return absl::OkStatus();
    case ValueKind::kUnused:
      return absl::OkStatus();
  }
  return absl::DataLossError("fits no slice of the shard");
}

absl::StatusOr<ShardSnapshot> SnapshotReader::Finish(const ShardReceipt& receipt) {
  if (values_ != receipt.values() || contents_.Value() != receipt.content_checksum()) {
    return DataLossError("holds ", values_, " values that are not the ", receipt.values(),
                         " of the checkpoint");
  }
  for (auto& [id, slice] : slices_) snapshot_.slices.push_back(std::move(slice));
  return std::move(snapshot_);
}

}  // namespace psgd
