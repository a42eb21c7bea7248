#include "server/replicated_journal.h"

#include <algorithm>

#include "server/journal_format.h"

namespace psgd {

absl::Status ReplicatedJournal::Append(uint64_t first, std::span<const JournalEntry> entries) {
  const uint64_t last = first + entries.size() - 1;
  // Of those that were tried before, only the followers are still to be waited for.
  const uint64_t from = std::max(first, written_ + 1);
  if (from <= last) {
    const auto rest = entries.subspan(from - first);
    PSGD_RETURN_IF_ERROR(local_->Append(from, rest));
    written_ = last;
    auto part = std::make_shared<LogPart>();
    part->mutable_entries()->set_first(from);
    for (size_t i = 0; i < rest.size(); ++i) {
      EncodeEntry(EncodeJournalKey(JournalKind::kEntry, from + i), rest[i],
                  part->mutable_entries()->add_values());
    }
    followers_->Publish(shard_, std::move(part), last);
  }
  return followers_->WaitWritten(shard_, last);
}

}  // namespace psgd
