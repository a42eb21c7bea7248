// The run that a command line names, and its config.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "proto/checkpoint.pb.h"
#include "proto/config.pb.h"

namespace psgd {

struct RunChoice {
  std::string config;            // a YAML file, or
  std::string resume;            // the directory of a run to go on with
  std::string checkpoint;        // id or name to resume from; empty: the newest sound checkpoint
  std::vector<std::string> set;  // "train.epochs=2"
  std::string shards;            // a number or "auto"; empty: from the config
  int workers = 0;
  std::string run_dir;     // empty: a new directory under runs/
  bool simulated = false;  // no server runs here, so "auto" shards are an error
};

// Reads the config, applies the options, resolves and validates it. Makes paths absolute; relative
// ones are relative to the current folder. `notes`: as of LoadConfig.
absl::StatusOr<Config> ReadRunConfig(const RunChoice& choice,
                                     std::vector<std::string>* notes = nullptr);

// The arguments that give ps-server the same choice.
std::vector<std::string> ArgumentsOfServer(const RunChoice& choice);

// A finished run cannot be resumed: the error says which key to raise.
absl::Status CheckUnfinished(const std::string& run_dir, const Config& config);

// The keys of a section that two configs set in different ways, for people: "optimizer is adam, and
// was sgd". If the section is of another kind, only the kind is named. Empty: there is none.
std::string ChangedKeys(const Config& before, const Config& now, const std::string& section);

// The optimizer needs no array that the checkpoint lacks, and the run ends no earlier than it.
absl::Status CheckGoesOn(const CheckpointManifest& checkpoint, const Config& config);

}  // namespace psgd
