#include "tests/sim/storage.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "server/durability/journal_format.h"

namespace psgd::sim {
namespace {

// Later ones were written so long ago that the operating system has put them on the disk by itself.
constexpr size_t kUnsyncedWrites = 40;
constexpr size_t kUnsyncedRecords = 12;

uint64_t ChecksumOfWrite(const DiskWrite& write) {
  Checksum checksum;
  checksum.Add(AsBytes(absl::StrCat(write.image, " ", write.entries.size())));
  for (const auto& [number, bytes] : write.entries) checksum.Add(AsBytes(bytes));
  return checksum.Value();
}

// The checksum of the arrays. The image's record is in the log.
uint64_t ChecksumOfImage(const ShardImage& image) {
  Checksum checksum;
  for (const SliceSnapshot& slice : image.arrays.slices) {
    checksum.Add(slice.weights.span());
    for (const auto& [name, state] : slice.states) checksum.Add(state.span());
  }
  return checksum.Value();
}

DiskWrite Entries(uint64_t first, std::span<const JournalEntry> entries) {
  DiskWrite write;
  for (const JournalEntry& entry : entries) {
    auto& [number, bytes] = write.entries.emplace_back(first + write.entries.size(), std::string());
    EncodeEntry(EncodeJournalKey(JournalKind::kEntry, number), entry, &bytes);
  }
  write.checksum = ChecksumOfWrite(write);
  return write;
}

// What is left of a write that was cut off.
void CutOff(Chance* chance, DiskWrite* write) {
  if (write->entries.empty()) {
    write->checksum ^= 1;
    return;
  }
  const auto last = static_cast<size_t>(
      chance->Between(int64_t{0}, static_cast<int64_t>(write->entries.size()) - 1));
  write->entries.resize(last + 1);
  std::string& bytes = write->entries.back().second;
  bytes.resize(
      static_cast<size_t>(chance->Between(int64_t{0}, static_cast<int64_t>(bytes.size()) - 1)));
}

}  // namespace

SimJournal::SimJournal(ShardDisk* disk, SimJournalOptions options)
    : disk_(disk), options_(options) {
  std::erase_if(disk_->logs, [](const auto& log) { return log.empty(); });
  if (options_.sync && options_.fault != DiskFault::kForgetsToSyncWhatItFinds) {
    for (auto& log : disk_->logs) {
      for (DiskWrite& write : log) write.synced = true;
    }
  }
  disk_->logs.emplace_back();
}

void SimJournal::Write(DiskWrite write, bool sync) {
  std::vector<DiskWrite>& log = disk_->logs.back();
  log.push_back(std::move(write));
  if (disk_->dies_writing || options_.fault == DiskFault::kNeverSyncs) return;
  if (!sync) {
    if (log.size() > kUnsyncedWrites) log[log.size() - 1 - kUnsyncedWrites].synced = true;
    return;
  }
  // Only the log of this life is open, so only its writes become synced.
  for (auto it = log.rbegin(); it != log.rend() && !it->synced; ++it) it->synced = true;
}

absl::Status SimJournal::Append(uint64_t first, std::span<const JournalEntry> entries) {
  if (disk_->full) return absl::ResourceExhaustedError("no space left on the simulated disk");
  if (options_.fault == DiskFault::kWritesLate) {
    for (DiskWrite& write : std::exchange(disk_->late, {})) Write(std::move(write), options_.sync);
    disk_->late.push_back(Entries(first, entries));
  } else {
    Write(Entries(first, entries), options_.sync);
  }
  return absl::OkStatus();
}

absl::Status SimJournal::SaveImage(const ShardImage& image) {
  if (disk_->full) return absl::ResourceExhaustedError("no space left on the simulated disk");
  const uint64_t entry = image.record.entry();
  disk_->images[entry] = {image, ChecksumOfImage(image)};
  damaged_.erase(entry);
  DiskWrite record;
  record.image = entry;
  record.checksum = ChecksumOfWrite(record);
  Write(std::move(record), /*sync=*/true);
  Trim();
  return absl::OkStatus();
}

// What only images before the older one needed goes.
void SimJournal::Trim() {
  std::vector<uint64_t> sound;
  for (const auto& [entry, image] : disk_->images) {
    if (!damaged_.contains(entry)) sound.push_back(entry);
  }
  if (sound.size() < 2) return;
  const uint64_t older = sound[sound.size() - 2];
  disk_->images.erase(disk_->images.begin(), disk_->images.lower_bound(older));
  for (auto& log : disk_->logs) {
    std::erase_if(log, [older](const DiskWrite& write) {
      return write.entries.empty() ? write.image < older : write.entries.back().first <= older;
    });
  }
}

absl::Status SimJournal::ReadLogs(const std::function<void(const DiskWrite&)>& take) const {
  for (const auto& log : disk_->logs) {
    for (size_t i = 0; i < log.size(); ++i) {
      if (ChecksumOfWrite(log[i]) == log[i].checksum) {
        take(log[i]);
      } else if (i + 1 < log.size()) {
        return absl::DataLossError("the simulated log is damaged in its midst");
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ShardImage> SimJournal::LoadImage(std::vector<std::string>* notes) {
  std::set<uint64_t, std::greater<>> recorded;
  PSGD_RETURN_IF_ERROR(ReadLogs([&](const DiskWrite& write) {
    if (write.entries.empty()) recorded.insert(write.image);
  }));
  absl::Status last = absl::NotFoundError("no image");
  for (const uint64_t entry : recorded) {
    const auto found = disk_->images.find(entry);
    if (found == disk_->images.end()) continue;
    const bool whole = ChecksumOfImage(found->second.image) == found->second.checksum;
    if (whole || options_.fault == DiskFault::kKeepsTorn) return found->second.image;
    last = absl::DataLossError(absl::StrCat("image ", entry, " does not match its checksum"));
    notes->emplace_back(last.message());
    damaged_.insert(entry);
  }
  return last;
}

absl::Status SimJournal::Replay(uint64_t entry,
                                const std::function<absl::Status(const JournalEntry&)>& take) {
  std::map<uint64_t, const std::string*> entries;
  PSGD_RETURN_IF_ERROR(ReadLogs([&](const DiskWrite& write) {
    for (const auto& [number, bytes] : write.entries) entries[number] = &bytes;
  }));
  uint64_t next = entry + 1;
  for (auto it = entries.upper_bound(entry); it != entries.end(); ++it, ++next) {
    if (it->first != next) return absl::DataLossError(absl::StrCat("entry ", next, " is missing"));
    const JournalKey key = EncodeJournalKey(JournalKind::kEntry, next);
    PSGD_ASSIGN_OR_RETURN(const JournalEntry decoded, DecodeEntry(key, *it->second));
    PSGD_RETURN_IF_ERROR(take(decoded));
  }
  return absl::OkStatus();
}

void Damage(DiskFault fault, ShardDisk* disk) {
  disk->late.clear();
  if (fault != DiskFault::kForgetsLast && fault != DiskFault::kRepeatsLast &&
      fault != DiskFault::kChangesOne)
    return;
  // A push alone: orders that are gone are found out before anything else is.
  std::optional<std::pair<size_t, size_t>>
      last;  // of the log that is written, a write and an entry
  if (disk->logs.empty()) return;
  std::vector<DiskWrite>& log = disk->logs.back();
  for (size_t w = 0; w < log.size(); ++w) {
    for (size_t e = 0; e < log[w].entries.size(); ++e) {
      const auto& [number, bytes] = log[w].entries[e];
      const auto entry = DecodeEntry(EncodeJournalKey(JournalKind::kEntry, number), bytes);
      if (entry.ok() && entry->head.message().push().parts_size() > 0) last = {w, e};
    }
  }
  if (!last) return;
  DiskWrite& write = log[last->first];
  const bool followed = last->first + 1 < log.size() || last->second + 1 < write.entries.size();
  if (followed && fault != DiskFault::kChangesOne) return;
  const uint64_t number = write.entries[last->second].first;
  const JournalKey key = EncodeJournalKey(JournalKind::kEntry, number);
  JournalEntry entry = *DecodeEntry(key, write.entries[last->second].second);
  if (fault == DiskFault::kChangesOne) {
    std::vector<std::byte> changed(entry.payloads[0].span().begin(),
                                   entry.payloads[0].span().end());
    changed.back() ^= std::byte{0x80};  // the sign: a whole number stays one
    entry.payloads[0] = Bytes::Adopt(std::move(changed));
    EncodeEntry(key, entry, &write.entries[last->second].second);
  } else {
    write.entries.resize(last->second + (fault == DiskFault::kRepeatsLast ? 1 : 0));
  }
  if (fault == DiskFault::kRepeatsLast) {
    // Under its next number, or its shard would know it.
    Push* push = entry.head.mutable_message()->mutable_push();
    push->set_seq(push->seq() + 1);
    push->set_clock(push->clock() + 1);
    push->set_end_of_clock(true);
    const JournalKey next = EncodeJournalKey(JournalKind::kEntry, number + 1);
    EncodeEntry(next, entry, &write.entries.emplace_back(number + 1, std::string()).second);
  }
  if (write.entries.empty()) {
    log.pop_back();
  } else {
    write.checksum = ChecksumOfWrite(write);
  }
}

bool LosePower(Chance* chance, ShardDisk* disk) {
  bool lost = false;
  for (auto& log : disk->logs) {
    const auto synced = static_cast<size_t>(
        std::find_if(log.rbegin(), log.rend(), [](const DiskWrite& write) { return write.synced; })
            .base() -
        log.begin());
    const auto kept = static_cast<size_t>(
        chance->Between(static_cast<int64_t>(synced), static_cast<int64_t>(log.size())));
    if (kept == log.size()) continue;
    lost = true;
    const bool torn = chance->Happens(0.5);
    log.resize(kept + (torn ? 1 : 0));
    if (torn) CutOff(chance, &log.back());
  }
  return lost;
}

void TearImage(ShardDisk* disk) {
  if (disk->images.size() < 2) return;
  for (SliceSnapshot& slice : disk->images.rbegin()->second.image.arrays.slices) {
    std::vector<std::byte> half(slice.weights.size());  // what was not written reads as nothing
    std::copy_n(slice.weights.span().begin(), half.size() / 2, half.begin());
    slice.weights = Bytes::Adopt(std::move(half));
  }
}

}  // namespace psgd::sim
