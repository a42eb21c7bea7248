#include "data/open_once.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace psgd {
namespace {

struct Opened {
  std::mutex mutex;
  std::map<std::pair<std::string, uint64_t>, DataSets> sets;  // by settings; guarded by mutex
};

}  // namespace

DataOpener OpenOnce(DataOpener open) {
  return [open = std::move(open), opened = std::make_shared<Opened>()](
             const DataConfig& config, uint64_t seed) -> absl::StatusOr<DataSets> {
    if (config.images().skip_damaged()) return open(config, seed);
    std::pair<std::string, uint64_t> settings = {config.SerializeAsString(), seed};
    std::lock_guard lock(opened->mutex);  // a concurrent caller waits instead of reading again
    if (const auto found = opened->sets.find(settings); found != opened->sets.end()) {
      return found->second;
    }
    PSGD_ASSIGN_OR_RETURN(DataSets sets, open(config, seed));
    opened->sets.emplace(std::move(settings), sets);
    return sets;
  };
}

}  // namespace psgd
