// What to do with a run that did not end well.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proto/checkpoint.pb.h"

namespace psgd {

// Nullopt: there is no checkpoint, or the list of checkpoints cannot be read.
std::optional<CheckpointManifest> NewestCheckpoint(const std::string& run_dir);
// The checkpoint that --checkpoint chooses; if `id_or_name` is empty, the newest.
std::optional<CheckpointManifest> ChosenCheckpoint(const std::string& run_dir,
                                                   const std::string& id_or_name);
bool HasCheckpoint(const std::string& run_dir);

// What ps-run was told, as far as --resume must be told it again.
struct StartedAs {
  bool servers_on_workers = false;
  std::vector<std::string> command;  // of the workers, in place of ps-worker; empty: ps-worker
  std::string etcd;                  // its members, as of --etcd; empty: not given
  std::string run_name;
  // The run directories of its servers, the leader's first, if the run goes on where its journals
  // end with an etcd that still has it.
  std::vector<std::string> servers;
  std::string tls_dir = {};
  std::vector<std::string> gpus = {};  // of the workers, as of LaunchOptions; empty: the CPU
  int workers = 1;
};

// `checkpoint`: the one to go back to; empty: not said.
std::string ResumeCommand(const std::string& run_dir, const StartedAs& started,
                          const std::string& checkpoint = "");

// For people: how to go on: with the servers that etcd still knows, else from the run's newest
// checkpoint, else from its journal. `stopped`: people asked the run to stop, so a server that
// recovers takes no workers: it makes the last checkpoint, if the run has none of its end.
std::string ResumeAdvice(const std::string& run_dir, const StartedAs& started,
                         bool stopped = false);

}  // namespace psgd
