// Run directories as runs leave them, without running anything.
#pragma once

#include <string>
#include <vector>

namespace psgd {

struct MadeRun {
  std::string push = "none";  // as in YAML
  std::string staleness = "0";
  int workers = 2;
  int batch = 64;
  int seed = 1;
  std::vector<double> accuracies = {0.5, 0.8};  // an epoch each
  double seconds = 10;                          // of all
  double samples_per_second = 1000;
  uint64_t bytes_pushed = 1'000'000;
  std::vector<uint64_t> staleness_counts = {10};
  int progress_records = 3;
  std::string status = "finished";
};

// Its config.yaml alone, in a folder that there is.
void WriteRunConfig(const std::string& folder, const MadeRun& run);
// REQUIRES: a folder that can be made.
void WriteRun(const std::string& folder, const MadeRun& run);
void WriteText(const std::string& path, const std::string& text);
std::string ReadText(const std::string& path);

}  // namespace psgd
