// Shows people what is new in the status of a run, each thing once.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "experiment/launch/child_process.h"
#include "experiment/launch/progress.h"
#include "proto/control.pb.h"

namespace psgd {

// Not thread-safe. REQUIRES: the display outlives it.
class StatusNotes {
 public:
  // `of_programs`: the workers run a command in place of ps-worker. In a run of ps-worker the run's
  // notes are not shown, because ps-run found them before the start.
  StatusNotes(ProgressDisplay* display, bool of_programs)
      : display_(display), of_programs_(of_programs) {}

  // Shows new workers, except those that ps-run started, and new troubles and notes. `stopping`:
  // absent servers that delay the stop are a trouble.
  void Show(const StatusReply& status, const std::vector<std::unique_ptr<ChildProcess>>& started,
            bool stopping);
  // Whether the status showed a live worker of this name.
  bool Knows(const std::string& worker) const { return known_.contains(worker); }

 private:
  void ShowTrouble(const std::string& trouble, std::string* shown);

  ProgressDisplay* const display_;
  const bool of_programs_;
  std::set<std::string> known_, noted_;                     // workers, notes
  std::string waits_for_, failed_checkpoint_, stop_waits_;  // the last troubles
};

}  // namespace psgd
