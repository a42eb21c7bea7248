// Checks whether everything that a run could resume or recover from is sound, for ps-ctl verify.
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
      0;  // the server that holds this part, so it was not checked here; 0: this server
  std::string unread{};  // why the part could not be read; empty: it could
  std::string folder{};  // "server-2", in the run directory; empty: of the run directory's server
};

struct VerifiedRun {
  std::vector<CheckedCheckpoint> checkpoints;  // newest first; PERMISSION_DENIED: unreadable
  std::vector<CheckedJournal> journal;         // empty: the run keeps no journal, or had not begun
  bool joined = false;       // the directory belongs to a server that joined the run
  std::string journal_note;  // why the journal was not checked; empty: it was
  bool own_etcd = false;     // ps-run ran an etcd for the run, with its data in this directory
  bool record_gone = false;  // those data, and the run's record with them, are gone
  std::string record_note;  // where the run's record is, and how the run goes on; empty: it is here
};

// Reads every checkpoint and the journal from end to end, and writes nothing. Skips a journal while
// a server writes to it, and one that another server of the run directory replaced. The journals of
// all servers in the run directory count. NOT_FOUND: `run_dir` is not a run directory.
absl::StatusOr<VerifiedRun> VerifyRun(const std::string& run_dir);

// Formats tables and the problems, or JSON.
std::string VerifiedText(const VerifiedRun& run, bool json);
// DATA_LOSS: a needed part is damaged. PERMISSION_DENIED: a part could not be read. NOT_FOUND:
// there is nothing to go on from. The message says what to do.
absl::Status VerifiedStatus(const std::string& run_dir, const VerifiedRun& run);

}  // namespace psgd
