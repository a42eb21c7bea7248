#include "server/control/replicated_journal.h"

#include <algorithm>

#include "server/durability/shard_parts.h"

namespace psgd {

namespace {

std::shared_ptr<const LogPart> PartOf(uint32_t shard, uint64_t first,
                                      std::span<const JournalEntry> entries) {
  auto part = std::make_shared<LogPart>();
  part->mutable_shard()->set_shard(shard);
  EncodeEntries(first, entries, part->mutable_shard()->mutable_entries());
  return part;
}

}  // namespace

absl::Status ReplicatedJournal::Append(uint64_t first, std::span<const JournalEntry> entries) {
  const uint64_t last = first + entries.size() - 1;
  // Of those that were tried before, only the followers are still to be waited for.
  const uint64_t from = std::max(first, written_ + 1);
  if (from <= last) {
    const auto rest = entries.subspan(from - first);
    PSGD_RETURN_IF_ERROR(local_->Append(from, rest));
    written_ = last;
    // Who connects later does so on this thread, and begins with an image that holds these.
    if (followers_->HasListeners(shard_))
      followers_->Publish(shard_, PartOf(shard_, from, rest), last);
  }
  return followers_->WaitWritten(shard_, last);
}

}  // namespace psgd
