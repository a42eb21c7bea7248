#include "train/trainer_options.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace psgd {

std::string DeviceText(const TrainerOptions& options) {
  if (options.gpus.empty()) {
    std::string text = "cpu, ";
    if (options.replicas > 1) absl::StrAppend(&text, options.replicas, " replicas of ");
    return absl::StrCat(text, options.threads, options.threads == 1 ? " thread" : " threads");
  }
  std::vector<int> indices;
  for (const GpuDevice& gpu : options.gpus) indices.push_back(gpu.index);
  return absl::StrCat(indices.size() == 1 ? "gpu " : "gpus ", absl::StrJoin(indices, " "), ", ",
                      options.gpus[0].name);
}

std::vector<NetworkOptions> NetworksOf(const TrainerOptions& options) {
  NetworkOptions network;
  network.backend = options.gpus.empty() ? options.backend : "cudnn";
  network.choices = options.choices;
  network.plugin_dir = options.plugin_dir;
  network.threads = options.threads;
  network.precision = options.precision;
  std::vector<NetworkOptions> networks;
  for (const GpuDevice& gpu : options.gpus) {
    network.device = gpu.index;
    networks.push_back(network);
  }
  if (networks.empty()) networks.assign(static_cast<size_t>(options.replicas), network);
  return networks;
}

}  // namespace psgd
