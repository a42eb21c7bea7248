// Whether steps that an earlier version of psgd wrote make the same weights now.
#pragma once

#include "common/status.h"
#include "proto/config.pb.h"
#include "proto/local_steps.h"

namespace psgd {

// FAILED_PRECONDITION: in runs with this config, entries with JournalEntry::earlier_rules make
// other weights. Whoever changes how a push counts adds the config here, and takes a new
// kJournalFormatVersion.
inline absl::Status CheckEarlierRules(const Config& config) {
  const ConsistencyConfig& consistency = config.consistency();
  const bool synchronous = consistency.staleness() == 0;
  // A push in time was divided too, by the number of workers.
  const bool scales = !synchronous && TakesLocalSteps(config.local()) &&
                      consistency.compensation() == ConsistencyConfig::SCALE;
  // A late push of a fragment was an update of its own; any late push that counted after all
  // workers had left had the share of its worker alone.
  const bool late = synchronous && consistency.quorum() > 0;
  if (!scales && !late) return absl::OkStatus();
  return FailedPreconditionError(
      "was written by an earlier version of psgd, in which ",
      scales ? "consistency.compensation: scale divided pushes of local steps by another number"
             : "late pushes (consistency.quorum) counted otherwise",
      ", so this version would make other weights of it: recover the run with the version that "
      "wrote it, or go on from its last checkpoint with ps-run --resume");
}

}  // namespace psgd
