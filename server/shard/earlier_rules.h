// Whether steps that an earlier version of psgd wrote make the same weights now.
#pragma once

#include "common/status.h"
#include "proto/config.pb.h"
#include "proto/local_steps.h"

namespace psgd {

// DATA_LOSS: in runs with this config, entries with JournalEntry::earlier_rules make other weights.
// Whoever changes how a push counts adds the config here, and takes a new kJournalFormatVersion.
inline absl::Status CheckEarlierRules(const Config& config) {
  const ConsistencyConfig& consistency = config.consistency();
  const bool synchronous = consistency.staleness() == 0;
  // A push in time was divided too, by the number of workers.
  const bool scales = !synchronous && TakesLocalSteps(config.local()) &&
                      consistency.compensation() == ConsistencyConfig::SCALE;
  // A late push was an update of its own.
  const bool late_fragments =
      synchronous && consistency.quorum() > 0 && config.local().fragments() > 1;
  if (!scales && !late_fragments) return absl::OkStatus();
  return DataLossError(
      "was written by an earlier version of psgd, in which ",
      scales ? "consistency.compensation: scale divided pushes of local steps by another number"
             : "late pushes of local.fragments counted in another clock",
      ", so this version would make other weights of it: recover the run with the version that "
      "wrote it, or go on from its last checkpoint with ps-run --resume");
}

}  // namespace psgd
