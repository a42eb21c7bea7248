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

// What ps-run was told, as far as --resume must be told it again.
struct StartedAs {
  bool servers_on_workers = false;
  std::vector<std::string> command;  // of the workers, in place of ps-worker; empty: ps-worker
};

std::string ResumeCommand(const std::string& run_dir, const StartedAs& started);

// For people: how to go on from the run's newest checkpoint; if there is none, from its journal.
std::string ResumeAdvice(const std::string& run_dir, const StartedAs& started);

}  // namespace psgd
