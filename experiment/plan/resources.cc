#include "experiment/plan/resources.h"

#include <sched.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

std::vector<int> Take(const std::vector<int>& all, int count, size_t* next) {
  std::vector<int> taken;
  for (int i = 0; i < count && !all.empty(); ++i) taken.push_back(all[(*next)++ % all.size()]);
  std::sort(taken.begin(), taken.end());
  taken.erase(std::unique(taken.begin(), taken.end()), taken.end());
  return taken;
}

absl::Status CheckEnough(const char* key, int wanted, size_t there, const std::string& what,
                         const char* advice) {
  if (wanted <= static_cast<int>(there)) return absl::OkStatus();
  return InvalidArgumentError("resources.", key, ": ", wanted, " for a run are more than the ",
                              there, " ", what, "; ", advice);
}

std::string SharedNote(int runs, int each, size_t there, const std::string& what) {
  return absl::StrCat(runs, " runs at a time share the ", there, " ", what,
                      ": their times are not those of runs alone; --parallel ",
                      std::max(1, static_cast<int>(there) / each), " gives each its own");
}

}  // namespace

absl::Status CheckShares(const ShareOptions& options, const std::string& machine) {
  PSGD_RETURN_IF_ERROR(CheckEnough("cores", options.cores_per_run, options.cores.size(),
                                   "cores of " + machine,
                                   "give fewer, or 0 for all that there are"));
  return CheckEnough("gpus", options.gpus_per_run, options.gpus.size(), "GPUs that --gpu names",
                     "give fewer, or name more with --gpu");
}

std::vector<std::string> SharedNotes(const ShareOptions& options, const std::string& machine) {
  std::vector<std::string> notes;
  const auto add = [&](int each, size_t there, const std::string& what) {
    if (static_cast<size_t>(options.parallel) * static_cast<size_t>(each) <= there) return;
    notes.push_back(SharedNote(options.parallel, each, there, what));
  };
  if (options.parallel == 1) return notes;
  add(std::max(1, options.cores_per_run), options.cores.size(), "cores of " + machine);
  if (options.gpus_per_run > 0)
    add(options.gpus_per_run, options.gpus.size(), "GPUs that --gpu names");
  return notes;
}

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
