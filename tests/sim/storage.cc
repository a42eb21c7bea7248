#include "tests/sim/storage.h"

#include "absl/strings/str_cat.h"
#include "server/journal_format.h"

namespace psgd::sim {

absl::Status SimJournal::Append(uint64_t first, std::span<const JournalEntry> entries) {
  if (disk_->full) return absl::ResourceExhaustedError("no space left on the simulated disk");
  for (size_t i = 0; i < entries.size(); ++i) {
    const JournalKey key = EncodeJournalKey(JournalKind::kEntry, first + i);
    EncodeEntry(key, entries[i], &disk_->entries[first + i]);
  }
  return absl::OkStatus();
}

absl::Status SimJournal::SaveImage(const ShardImage& image) {
  if (disk_->full) return absl::ResourceExhaustedError("no space left on the simulated disk");
  disk_->images[image.record.entry()] = image;
  while (disk_->images.size() > 2) disk_->images.erase(disk_->images.begin());
  // As on a real disk, what only images before the older one needed goes.
  const uint64_t older = disk_->images.begin()->first;
  disk_->entries.erase(disk_->entries.begin(), disk_->entries.upper_bound(older));
  return absl::OkStatus();
}

absl::StatusOr<ShardImage> SimJournal::LoadImage(std::vector<std::string>* notes) {
  if (disk_->images.empty()) return absl::NotFoundError("no image");
  return disk_->images.rbegin()->second;
}

absl::Status SimJournal::Replay(uint64_t entry,
                                const std::function<absl::Status(const JournalEntry&)>& take) {
  uint64_t next = entry + 1;
  for (auto it = disk_->entries.upper_bound(entry); it != disk_->entries.end(); ++it, ++next) {
    if (it->first != next) return absl::DataLossError(absl::StrCat("entry ", next, " is missing"));
    const JournalKey key = EncodeJournalKey(JournalKind::kEntry, next);
    PSGD_ASSIGN_OR_RETURN(const JournalEntry decoded, DecodeEntry(key, it->second));
    PSGD_RETURN_IF_ERROR(take(decoded));
  }
  return absl::OkStatus();
}

void Damage(DiskFault fault, ShardDisk* disk) {
  // An order that is gone is given again: only pushes show the fault.
  auto last = disk->entries.end();
  for (auto it = disk->entries.begin(); it != disk->entries.end(); ++it) {
    const JournalKey key = EncodeJournalKey(JournalKind::kEntry, it->first);
    const auto entry = DecodeEntry(key, it->second);
    if (entry.ok() && entry->head.message().push().parts_size() > 0) last = it;
  }
  if (fault == DiskFault::kNone || last == disk->entries.end()) return;
  const uint64_t number = last->first;
  const JournalKey key = EncodeJournalKey(JournalKind::kEntry, number);
  JournalEntry entry = *DecodeEntry(key, last->second);
  if (fault == DiskFault::kForgetsLast) {
    disk->entries.erase(last, disk->entries.end());
  } else if (fault == DiskFault::kRepeatsLast) {
    // Under its next number, or its shard would know it.
    Push* push = entry.head.mutable_message()->mutable_push();
    push->set_seq(push->seq() + 1);
    push->set_clock(push->clock() + 1);
    push->set_end_of_clock(false);
    disk->entries.erase(disk->entries.upper_bound(number), disk->entries.end());
    EncodeEntry(EncodeJournalKey(JournalKind::kEntry, number + 1), entry,
                &disk->entries[number + 1]);
  } else {
    std::vector<std::byte> changed(entry.payloads[0].span().begin(), entry.payloads[0].span().end());
    changed.back() ^= std::byte{0x80};  // the sign: a whole number stays one
    entry.payloads[0] = Bytes::Adopt(std::move(changed));
    EncodeEntry(key, entry, &last->second);
  }
}

}  // namespace psgd::sim
