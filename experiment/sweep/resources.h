// What runs that go on at the same time have each to themselves.
#pragma once

#include <vector>

namespace psgd {

struct Share {
  std::vector<int> cores;
  std::vector<int> gpus;
};

struct ShareOptions {
  std::vector<int> cores;  // that there are
  std::vector<int> gpus;
  int parallel = 1;       // runs at a time
  int cores_per_run = 0;  // 0: as many as there are for each
  int gpus_per_run = 0;
};

// One for each run that goes on at a time: cores and GPUs one after the other, from the front again
// where they are too few for all.
std::vector<Share> Shares(const ShareOptions& options);

// The cores that this process may run on.
std::vector<int> OwnCores();

}  // namespace psgd
