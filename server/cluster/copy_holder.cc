#include "server/cluster/copy_holder.h"

#include <tuple>
#include <utility>

namespace psgd {
namespace {

constexpr int kStatesPerPatience = 6;

}  // namespace

CopyHolder::CopyHolder(RunServer self, std::string run_id, const std::set<uint32_t>& on_disk,
                       Duration patience)
    : patience_(patience), self_(std::move(self)), run_id_(std::move(run_id)) {
  for (const uint32_t shard : on_disk) {
    copies_[shard].set_shard(shard);
    copies_[shard].set_unread(true);
  }
}

void CopyHolder::OnConnected(ServerEffects* effects, Time now) {
  changed_ = true;
  Tick(now, effects);
}

void CopyHolder::OnAssignment(const Assignment& assignment, ServerEffects* effects) {
  const auto version = [](const auto& message) {
    return std::pair(message.run_epoch(), message.revision());
  };
  if (version(assignment) < std::pair(run_epoch_, revision_)) return;  // an outdated assignment
  run_epoch_ = assignment.run_epoch();
  revision_ = assignment.revision();
  self_.set_server(assignment.server());
  std::set<uint32_t> wanted;
  for (const AssignedCopy& copy : assignment.copies()) {
    wanted.insert(copy.shard());
    if (copy.epoch() == 0) continue;  // the run's leader decides later about the copy
    if (const auto dropping = dropping_.find(copy.shard()); dropping != dropping_.end()) {
      dropping->second = copy;
    } else {
      given_.insert(copy.shard());
      effects->push_back(effect::HaveCopy{copy});
    }
  }
  std::set<uint32_t> held = given_;  // some of these have not reported yet
  for (const auto& [shard, copy] : copies_) held.insert(shard);
  for (const uint32_t shard : held) {
    if (wanted.contains(shard)) continue;
    const auto [dropping, begins] = dropping_.try_emplace(shard);
    dropping->second.reset();
    if (begins) effects->push_back(effect::DropCopy{shard});
  }
  if (assignment.checkpoint_done() > checkpoint_done_) {
    checkpoint_done_ = assignment.checkpoint_done();
    std::erase_if(cuts_, [&](const auto& cut) { return cut.second <= checkpoint_done_; });
    effects->push_back(effect::CheckpointDone{checkpoint_done_});
  }
}

void CopyHolder::OnCopy(const CopyState& copy) {
  CopyState& known = copies_[copy.shard()];
  const auto deciding = [](const CopyState& state) {
    return std::tuple(state.unread(), state.epoch(), state.leads(), state.empty(), state.report(),
                      state.written_order(), state.endpoint(), state.trouble());
  };
  changed_ = changed_ || deciding(known) != deciding(copy);
  known = copy;
}

void CopyHolder::OnDropped(uint32_t shard, ServerEffects* effects) {
  cuts_.erase(shard);
  given_.erase(shard);
  changed_ = copies_.erase(shard) > 0 || changed_;
  const auto dropped = dropping_.extract(shard);
  if (dropped.empty() || !dropped.mapped()) return;
  given_.insert(shard);
  effects->push_back(effect::HaveCopy{*dropped.mapped()});
}

bool CopyHolder::OnCut(uint32_t shard, uint64_t checkpoint) {
  if (checkpoint <= checkpoint_done_) return false;
  cuts_[shard] = checkpoint;
  return true;
}

void CopyHolder::Tick(Time now, ServerEffects* effects) {
  if (!changed_ && now < sent_ + patience_ / kStatesPerPatience) return;
  changed_ = false;
  sent_ = now;
  effects->push_back(effect::SendState{State()});
}

ServerState CopyHolder::State() {
  ServerState state;
  state.set_run_epoch(run_epoch_);
  state.set_revision(revision_);
  state.set_number(++number_);
  *state.mutable_self() = self_;
  state.set_run_id(run_id_);
  state.set_leaving(leaving_);
  for (const auto& [shard, copy] : copies_) *state.add_copies() = copy;
  return state;
}

}  // namespace psgd
