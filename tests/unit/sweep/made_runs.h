// Writes run directories like those of real runs, without a run.
#pragma once

#include <string>
#include <vector>

namespace psgd {

struct MadeRun {
  std::string push = "none";  // in YAML
  std::string staleness = "0";
  int workers = 2;
  int batch = 64;
  int train_samples = 0;  // 0: all
  int seed = 1;
  std::vector<double> accuracies = {0.5, 0.8};  // one per epoch
  std::string measure = "";                     // not empty: what the accuracies are in truth
  double seconds = 10;                          // of the whole run
  double samples_per_second = 1000;
  uint64_t bytes_pushed = 1'000'000;
  std::vector<uint64_t> staleness_counts = {10};
  int progress_records = 3;
  std::string status = "finished";
  std::string stopped_early = "";
};

// Writes only config.yaml, into an existing folder.
void WriteRunConfig(const std::string& folder, const MadeRun& run);
// REQUIRES: the folder can be created.
void WriteRun(const std::string& folder, const MadeRun& run);
void WriteText(const std::string& path, const std::string& text);
std::string ReadText(const std::string& path);

}  // namespace psgd
