// Whether all that a run could go on from is sound: for ps-ctl verify.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "server/checkpoint_store.h"
#include "server/rocks_journal.h"

namespace psgd {

struct CheckedJournal {
  std::string part;       // "coordinator", "shard 3"
  JournalReport report;
};

struct VerifiedRun {
  std::vector<CheckedCheckpoint> checkpoints;  // newest first
  std::vector<CheckedJournal> journal;         // empty: the run keeps none, or had not begun
  std::string journal_note;                    // why it was not looked at; empty: it was
};

// Reads every checkpoint and the journal from end to end, and writes nothing. A journal that a server
// writes is left alone. NOT_FOUND: that is no run directory.
absl::StatusOr<VerifiedRun> VerifyRun(const std::string& run_dir);

// Tables and what is wrong, or JSON.
std::string VerifiedText(const VerifiedRun& run, bool json);
// DATA_LOSS when something that counts is damaged, NOT_FOUND when there is nothing to go on from; says
// what can be done.
absl::Status VerifiedStatus(const std::string& run_dir, const VerifiedRun& run);

}  // namespace psgd
