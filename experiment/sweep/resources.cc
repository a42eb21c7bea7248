#include "experiment/sweep/resources.h"

#include <sched.h>

#include <algorithm>

namespace psgd {
namespace {

std::vector<int> Take(const std::vector<int>& all, int count, size_t* next) {
  std::vector<int> taken;
  for (int i = 0; i < count && !all.empty(); ++i) taken.push_back(all[(*next)++ % all.size()]);
  std::sort(taken.begin(), taken.end());
  taken.erase(std::unique(taken.begin(), taken.end()), taken.end());
  return taken;
}

}  // namespace

std::vector<Share> Shares(const ShareOptions& options) {
  const int each = std::max(1, static_cast<int>(options.cores.size()) / options.parallel);
  std::vector<Share> shares;
  size_t next_core = 0, next_gpu = 0;
  for (int i = 0; i < options.parallel; ++i) {
    Share share;
    share.cores =
        Take(options.cores, options.cores_per_run > 0 ? options.cores_per_run : each, &next_core);
    share.gpus = Take(options.gpus, options.gpus_per_run, &next_gpu);
    shares.push_back(std::move(share));
  }
  return shares;
}

std::vector<int> OwnCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

}  // namespace psgd
