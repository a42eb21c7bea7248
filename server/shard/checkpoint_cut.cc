#include "server/shard/checkpoint_cut.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/program_state.h"

namespace psgd {

CheckpointCut::CheckpointCut(const TakeCheckpoint& command, const SliceSet& slices)
    : id_(command.id), clock_(command.clock) {
  std::set<uint32_t> savers;
  for (const WorkerKey& key : command.savers) {
    saved_[key.worker()] = false;
    savers.insert(key.worker());
  }
  slices.AddStates(savers, &snapshot_);
}

void CheckpointCut::Add(uint32_t worker, uint32_t id, const Bytes& state) {
  snapshot_.residuals[worker].emplace_back(id, state);
}

void CheckpointCut::Forget(uint32_t worker) {
  const auto saved = saved_.find(worker);
  if (saved == saved_.end()) return;
  if (!saved->second) {  // a part of a program's state is of no use
    std::erase_if(snapshot_.residuals[worker],
                  [](const auto& state) { return IsProgramPart(state.first); });
  }
  saved_.erase(saved);
}

bool CheckpointCut::HasAllStates() const {
  return std::ranges::all_of(saved_, [](const auto& saved) { return saved.second; });
}

ShardCut CheckpointCut::Finish(const SliceSet& slices) {
  snapshot_.slices = slices.Snapshot();
  // Residuals of savers that ended before they pushed.
  std::set<uint32_t> saved;
  for (const auto& [worker, states] : snapshot_.residuals) saved.insert(worker);
  slices.AddStates(saved, &snapshot_);
  return {id_, std::move(snapshot_)};
}

}  // namespace psgd
