// What to do with a run that did not end well.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proto/checkpoint.pb.h"

namespace psgd {

// None, if the list of checkpoints cannot be read.
std::optional<CheckpointManifest> NewestCheckpoint(const std::string& run_dir);
// The one that --checkpoint chooses; of an empty word, the newest.
std::optional<CheckpointManifest> ChosenCheckpoint(const std::string& run_dir,
                                                   const std::string& id_or_name);
bool HasCheckpoint(const std::string& run_dir);

// `command`: what the workers ran in place of ps-worker; empty: they were ps-workers.
std::string ResumeCommand(const std::string& run_dir, const std::vector<std::string>& command);

// One sentence for people: how to go on from the run's newest checkpoint, or that there is none.
std::string ResumeAdvice(const std::string& run_dir, const std::vector<std::string>& command);

}  // namespace psgd
