// The part of RocksJournal that reads all of it, for people who want to know what is damaged.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/checkpoint_files.h"
#include "server/journal_folder.h"
#include "server/journal_format.h"
#include "server/rocks.h"
#include "server/rocks_journal.h"
#include "server/rocks_log_check.h"

namespace psgd {
namespace {
constexpr size_t kMostEntriesNamed = 20;  // of the damaged ones
}  // namespace

JournalReport RocksJournal::Check(RocksJournalOptions options) {
  JournalReport report;
  if (const absl::Status there = CheckShardThere(options.folder); !there.ok()) {
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
    report.misplaced = journal.Images().ok();  // or nothing could be read of which shard it is
    return report;
  }
  const absl::Status tables = FromRocks(journal.db_->VerifyChecksum(), journal.LogFolder());
  if (!tables.ok()) report.damage.emplace_back(tables.message());
  journal.CheckImages(&report);
  journal.CheckEntries(&report);
  // As a server would, but for the steps themselves.
  std::vector<std::string> notes;
  const auto image = journal.LoadImage(&notes);
  report.recovers = CheckLogEnds(journal.LogFolder()).ok() && image.ok() &&
                    journal.Replay(image->record.entry(), [](const JournalEntry&) {
                      return absl::OkStatus();
                    }).ok();
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
      report->damage.push_back(absl::StrCat("image ", entry, ": ", std::string(image.status().message())));
    }
    if (logs_.count(entry + 1) == 0) {
      report->damage.push_back(absl::StrCat(LogFolder(), " lacks the entries that follow image ", entry));
    }
  }
  if (images->empty()) report->damage.push_back(absl::StrCat(options_.folder, " has no image"));
}

void RocksJournal::CheckEntries(JournalReport* report) const {
  size_t damaged = 0;
  const auto note = [&](const std::string& what) {
    if (++damaged <= kMostEntriesNamed) report->damage.push_back(absl::StrCat(LogFolder(), ": ", what));
  };
  for (const auto& [first, log] : logs_) {
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(rocksdb::ReadOptions(), log.get()));
    uint64_t next = report->last == 0 ? first : report->last + 1;
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      const auto number = DecodeJournalKey(JournalKind::kEntry, {at->key().data(), at->key().size()});
      if (!number.ok()) {
        note(absl::StrCat("after entry ", report->last, ": ", std::string(number.status().message())));
        continue;
      }
      if (*number != next) note(absl::StrCat("entry ", next, " is missing; the next is ", *number));
      const JournalKey key = EncodeJournalKey(JournalKind::kEntry, *number);
      const auto entry = DecodeEntry(key, {at->value().data(), at->value().size()});
      if (!entry.ok()) note(absl::StrCat("entry ", *number, " ", std::string(entry.status().message())));
      if (report->first == 0) report->first = *number;
      report->last = *number;
      next = *number + 1;
    }
    const absl::Status status = FromRocks(at->status(), LogFolder());
    if (!status.ok()) note(absl::StrCat("after entry ", report->last, ": ", std::string(status.message())));
  }
  if (damaged > kMostEntriesNamed) {
    report->damage.push_back(absl::StrCat(LogFolder(), ": ", damaged - kMostEntriesNamed,
                                          " more entries are damaged or missing"));
  }
}

}  // namespace psgd
