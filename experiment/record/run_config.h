// Which run a command line means, and its config.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "proto/config.pb.h"

namespace psgd {

struct RunChoice {
  std::string config;            // a YAML file, or
  std::string resume;            // the directory of a run to go on with
  std::string checkpoint;        // its id or name, to go on from there; empty: the newest sound one
  std::vector<std::string> set;  // "train.epochs=2"
  int shards = 0;                // 0: as the config says
  int workers = 0;
  std::string run_dir;  // empty: a fresh one under runs/
};

// Read, changed as chosen, resolved and valid. Relative paths in it are meant from the current
// folder, and absolute here.
absl::StatusOr<Config> ReadRunConfig(const RunChoice& choice);

// The arguments with which ps-server means the same.
std::vector<std::string> ArgumentsOfServer(const RunChoice& choice);

}  // namespace psgd
