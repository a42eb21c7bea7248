#include "server/durability/shard_parts.h"

#include <utility>

#include "server/durability/checkpoint_database.h"
#include "server/durability/journal_format.h"

namespace psgd {
namespace {

bool SendArrays(const ShardSnapshot& arrays, ShardPart first,
                const std::function<bool(const ShardPart&)>& send) {
  if (!send(first)) return false;
  ShardPart part;
  part.set_shard(first.shard());
  ShardReceipt receipt;
  const absl::Status sent =
      ForEachPair(arrays, &receipt, [&](absl::string_view key, const std::string& value) {
        part.mutable_pair()->set_key(key.data(), key.size());
        part.mutable_pair()->set_value(value);
        return send(part) ? absl::OkStatus() : absl::CancelledError("the other side is gone");
      });
  *part.mutable_end() = receipt;
  return sent.ok() && send(part);
}

}  // namespace

bool SendImage(uint32_t shard, const ShardImage& image,
               const std::function<bool(const ShardPart&)>& send) {
  ShardPart first;
  first.set_shard(shard);
  *first.mutable_image() = image.record;
  first.mutable_image()->clear_receipt();
  return SendArrays(image.arrays, std::move(first), send);
}

bool SendCut(uint32_t shard, const ShardCut& cut,
             const std::function<bool(const ShardPart&)>& send) {
  ShardPart first;
  first.set_shard(shard);
  first.set_checkpoint(cut.checkpoint);
  return SendArrays(cut.snapshot, std::move(first), send);
}

void EncodeEntries(uint64_t first, std::span<const JournalEntry> entries,
                   ShardPart::Entries* encoded) {
  encoded->set_first(first);
  for (size_t i = 0; i < entries.size(); ++i) {
    EncodeEntry(EncodeJournalKey(JournalKind::kEntry, first + i), entries[i],
                encoded->add_values());
  }
}

absl::StatusOr<JournalEntries> DecodeEntries(const ShardPart::Entries& encoded) {
  JournalEntries entries{encoded.first(), {}};
  for (const std::string& value : encoded.values()) {
    const JournalKey key = EncodeJournalKey(JournalKind::kEntry, entries.last() + 1);
    PSGD_ASSIGN_OR_RETURN(JournalEntry entry, DecodeEntry(key, value));
    entries.entries.push_back(std::move(entry));
  }
  return entries;
}

absl::StatusOr<std::optional<ShardPartReader::Whole>> ShardPartReader::Add(const ShardPart& part) {
  switch (part.part_case()) {
    case ShardPart::kImage:
      whole_ = ShardImage{part.image(), {}};
      pairs_.emplace();
      return std::nullopt;
    case ShardPart::kCheckpoint:
      whole_ = ShardCut{part.checkpoint(), {}};
      pairs_.emplace();
      return std::nullopt;
    case ShardPart::kPair:
      if (!pairs_) return absl::DataLossError("an array came before what it belongs to");
      PSGD_RETURN_IF_ERROR(pairs_->Add(part.pair().key(), part.pair().value()));
      return std::nullopt;
    case ShardPart::kEnd: {
      if (!pairs_) return absl::DataLossError("the end came before what it belongs to");
      PSGD_ASSIGN_OR_RETURN(ShardSnapshot arrays, pairs_->Finish(part.end()));
      pairs_.reset();
      if (auto* image = std::get_if<ShardImage>(&whole_)) {
        image->arrays = std::move(arrays);
      } else {
        std::get<ShardCut>(whole_).snapshot = std::move(arrays);
      }
      return std::exchange(whole_, Whole());
    }
    case ShardPart::PART_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a piece of a shard that this server does not know");
}

}  // namespace psgd
