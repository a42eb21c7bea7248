#include "server/control/copy_folder.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/has_journal.h"
#include "server/durability/checkpoint_files.h"
#include "server/durability/journal_folder.h"
#include "server/durability/rocks_journal.h"

namespace psgd {
namespace {

RocksJournalOptions JournalIn(const std::string& folder, const CopyFolderOptions& options) {
  RocksJournalOptions journal;
  journal.folder = folder;
  journal.shard = options.shard;
  journal.sync = options.config.durability().acknowledge() == DurabilityConfig::FSYNC;
  journal.failpoint = options.failpoint;
  return journal;
}

}  // namespace

CopyFolder::CopyFolder(CopyFolderOptions options)
    : options_(std::move(options)),
      has_journal_(HasJournal(options_.config)),
      place_(JournalFolder(options_.journal_dir, absl::StrCat("shard-", options_.shard))),
      aside_(absl::StrCat(place_, kAsideSuffix)) {}

absl::Status CopyFolder::RemoveGone() const {
  PSGD_RETURN_IF_ERROR(RemoveFolder(aside_ + kGoneSuffix));
  return RemoveFolder(place_ + kGoneSuffix);
}

bool CopyFolder::Exists(CopySpot spot) const {
  return has_journal_ && std::filesystem::exists(PathOf(spot));
}

absl::Status CopyFolder::Rename(CopySpot from, CopySpot to) {
  return RenameFolder(PathOf(from), PathOf(to));
}

absl::Status CopyFolder::Discard(CopySpot spot) {
  if (!has_journal_) return absl::OkStatus();
  const absl::Status removed = DiscardFolder(PathOf(spot));
  if (!removed.ok()) {
    options_.log->warn("shard {}: what is left of a copy: {}", options_.shard, removed.ToString());
  }
  return removed;
}

absl::StatusOr<DurableShardOptions> CopyFolder::Create() {
  DurableShardOptions options = DurableShardOptionsOf(options_.config, options_.shard, 1);
  if (!has_journal_) return options;
  PSGD_ASSIGN_OR_RETURN(options.journal, RocksJournal::Create(JournalIn(place_, options_)));
  return options;
}

absl::StatusOr<std::unique_ptr<DurableShard>> CopyFolder::Read() {
  auto journal = RocksJournal::Open(JournalIn(place_, options_));
  std::vector<std::string> notes;
  DurableShardOptions options = DurableShardOptionsOf(options_.config, options_.shard, 1);
  if (journal.ok()) options.journal = *std::move(journal);
  auto shard = journal.ok() ? DurableShard::Recover(std::move(options), &notes) : journal.status();
  for (const std::string& note : notes) options_.log->warn("shard {}: {}", options_.shard, note);
  if (absl::IsNotFound(shard.status())) {
    options_.log->info("shard {}: {}", options_.shard, std::string(shard.status().message()));
  }
  return shard;
}

}  // namespace psgd
