#include "server/cluster/held_cuts.h"

#include <utility>

namespace psgd {

void HeldCuts::Made(uint32_t shard, std::shared_ptr<const ShardCut> cut) {
  made_[shard] = std::move(cut);
}

void HeldCuts::Came(uint32_t shard, std::shared_ptr<const ShardCut> cut) {
  to_write_[shard] = std::move(cut);
}

std::shared_ptr<const ShardCut> HeldCuts::Find(uint64_t checkpoint, uint32_t shard) const {
  for (const Cuts* cuts : {&to_write_, &made_}) {
    const auto cut = cuts->find(shard);
    if (cut != cuts->end() && cut->second->checkpoint == checkpoint) return cut->second;
  }
  return nullptr;
}

std::shared_ptr<const ShardCut> HeldCuts::Write(uint64_t checkpoint, uint32_t shard) {
  std::shared_ptr<const ShardCut> cut = Find(checkpoint, shard);
  if (cut != nullptr) to_write_[shard] = cut;
  return cut;
}

void HeldCuts::Written(uint64_t checkpoint, uint32_t shard) {
  const auto cut = to_write_.find(shard);
  if (cut != to_write_.end() && cut->second->checkpoint == checkpoint) to_write_.erase(cut);
}

void HeldCuts::Done(uint64_t checkpoint) {
  for (Cuts* cuts : {&made_, &to_write_}) {
    std::erase_if(*cuts, [&](const auto& cut) { return cut.second->checkpoint <= checkpoint; });
  }
}

}  // namespace psgd
