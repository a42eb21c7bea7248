// What a run directory says about its run, whether running, over or cut short.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "experiment/record/records.h"
#include "experiment/record/summary.h"
#include "proto/checkpoint.pb.h"
#include "proto/control.pb.h"

namespace psgd {

struct RunDirStatus {
  std::string run_dir;
  std::optional<Summary> summary;               // none: the run goes on, or its server was killed
  Record progress;                              // the last progress record in metrics.jsonl; null:
                                                // none
  std::vector<EvalResult> evaluations;          // the last of each epoch
  CodecChoices choices;                         // the latest choices of the lowest worker that made
                                                // any
  std::vector<CheckpointManifest> checkpoints;  // newest first
  std::optional<StatusReply> live;              // what its server says; none: it was not asked, or
                                                // does not answer
  std::vector<std::string> notes;               // what could not be read
};

// NOT_FOUND: `run_dir` is not a run directory.
absl::StatusOr<RunDirStatus> ReadRunDirStatus(const std::string& run_dir);

std::string RunDirStatusText(const RunDirStatus& status);
Record RunDirStatusJson(const RunDirStatus& status);

}  // namespace psgd
