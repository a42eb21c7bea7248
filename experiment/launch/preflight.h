// Finds problems of a run before any of its processes starts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "proto/checkpoint.pb.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"

namespace psgd {

struct TrainingSize {
  double samples = 0;  // of an epoch
  double weights = 0;
  std::shared_ptr<const ModelSpec> model = nullptr;
  std::vector<std::string> notes = {};  // for people: what may not be meant
};
// Opens the data and builds the network, as every worker on this machine will. The error says what
// does not fit, or which key would have no effect. `begins`: false for a run that goes on. An
// earlier version may have begun that run, so data from which it can learn nothing give a note
// instead of an error. `checkpoint`: the checkpoint from which the run goes on, whose network and
// data it must keep.
absl::StatusOr<TrainingSize> CheckTrainable(const Config& config, bool begins,
                                            const CheckpointManifest* checkpoint = nullptr);

// The check of a run whose workers run another program than ps-worker.
absl::Status CheckBringsModel(const Config& config);

}  // namespace psgd
