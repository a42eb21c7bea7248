// Whether all that a run could go on from is sound: for ps-ctl verify.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "server/durability/checkpoint_store.h"
#include "server/durability/rocks_journal.h"

namespace psgd {

struct CheckedJournal {
  std::string part;  // "coordinator", "shard 3"
  JournalReport report;
  uint32_t server =
      0;  // of a run on several: that it lies on, so that it was not looked at; 0: here
  std::string unread{};  // why it could not be; empty: it could
};

struct VerifiedRun {
  std::vector<CheckedCheckpoint>
      checkpoints;                      // newest first; PERMISSION_DENIED: it could not be read
  std::vector<CheckedJournal> journal;  // empty: the run keeps none, or had not begun
  bool joined = false;                  // the directory is of a server that joined another's run
  std::string journal_note;             // why it was not looked at; empty: it was
};

// Reads every checkpoint and the journal from end to end, and writes nothing. A journal that a
// server writes is left alone. NOT_FOUND: that is no run directory.
absl::StatusOr<VerifiedRun> VerifyRun(const std::string& run_dir);

// Tables and what is wrong, or JSON.
std::string VerifiedText(const VerifiedRun& run, bool json);
// DATA_LOSS when something that counts is damaged, PERMISSION_DENIED when something could not be
// read, NOT_FOUND when there is nothing to go on from; says what can be done.
absl::Status VerifiedStatus(const std::string& run_dir, const VerifiedRun& run);

}  // namespace psgd
