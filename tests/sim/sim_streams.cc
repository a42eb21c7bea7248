#include "tests/sim/sim_streams.h"

#include <memory>
#include <utility>
#include <vector>

#include "tests/sim/run_world.h"

namespace psgd::sim {
namespace {

constexpr int64_t kMostImageParts = 4;

// The image as if only its first parts had come: half of its slices have no weights.
CopyMessage HalfOf(CopyMessage message) {
  ShardImage half = *std::get<CopyMessage::Image>(message.what).image;
  for (size_t i = half.arrays.slices.size() / 2; i < half.arrays.slices.size(); ++i) {
    Bytes& weights = half.arrays.slices[i].weights;
    weights = Bytes::Adopt(std::vector<std::byte>(weights.size()));
  }
  message.what = CopyMessage::Image{std::make_shared<const ShardImage>(std::move(half))};
  return message;
}

}  // namespace

void SimStreams::Follow(uint32_t shard, uint32_t leader) {
  Following& following = follows_[shard];
  if (following.server == leader) return;
  world_->outcome().images_broken_off += following.begun.has_value();
  following = {leader, 0, std::nullopt};
  Reach(shard);
}

void SimStreams::Send(CopySend send) {
  SimServer* const to = world_->MachineOf(send.server);
  if (to == nullptr) return;
  CopyMessage& message = send.message;
  const uint32_t shard = message.shard;
  auto* const steps = std::get_if<CopyMessage::Steps>(&message.what);
  if (auto* has = std::get_if<CopyMessage::Has>(&message.what);
      has != nullptr && world_->faults().bug == CopyBug::kKeepDiverged && has->entries > 0) {
    has->log_epoch = message.epoch;
  }
  if (steps != nullptr && world_->faults().bug == CopyBug::kSkipStep &&
      !steps->steps.entries.empty() && chance_->Happens(0.2)) {
    for (Bytes& payload : steps->steps.entries.back().payloads) {
      payload = Bytes::Adopt(std::vector<std::byte>(payload.size()));
    }
  }
  const bool image = std::holds_alternative<CopyMessage::Image>(message.what);
  const bool leads = image || steps != nullptr;
  SimStreams* const follower = leads ? &to->streams() : this;
  const Following& following = follower->follows_[shard];
  const uint64_t stream = following.stream;
  if (stream == 0 || following.server != (leads ? server_->server() : send.server)) return;
  const int64_t parts = image ? chance_->Between(1, kMostImageParts) : 1;
  world_->outcome().images_in_parts += parts > 1;
  for (int64_t part = 1; part <= parts; ++part) {
    const bool slow = image && world_->queue().now() < world_->scenario().network.heals_at;
    const Duration pause =
        slow ? chance_->Between(Duration(0), world_->faults().image_pause) : Duration(0);
    world_->Carry(
        {server_->machine(), to->machine(), RunWorld::StreamOf(shard)}, pause,
        [=, from = server_->server(), last = part == parts] {
          if (follower->follows_[shard].stream != stream) return;
          last ? to->OnCopyMessage(from, message) : to->OnImagePart(message);
        },
        [=] { follower->Lose(shard, stream); });
  }
}

void SimStreams::Lose(uint32_t shard, uint64_t stream) {
  const auto at = follows_.find(shard);
  if (at == follows_.end() || stream == 0 || at->second.stream != stream) return;
  at->second.stream = 0;
  if (SimServer* const leader = world_->MachineOf(at->second.server)) {
    leader->LoseFollower(shard, server_->server());
  }
  if (const auto begun = std::exchange(at->second.begun, std::nullopt)) {
    ++world_->outcome().images_broken_off;
    if (world_->faults().bug == CopyBug::kTakeHalfImage)
      server_->OnCopyMessage(at->second.server, HalfOf(*begun));
  }
  ReachLater(shard);
}

void SimStreams::ReachLater(uint32_t shard) {
  world_->queue().After(chance_->Between(std::chrono::milliseconds(1), kServerSilence / 2),
                        [=, this, life = server_->life()] {
                          if (life != server_->life()) return;
                          server_->WhenAwake([=, this] { Reach(shard); });
                        });
}

void SimStreams::Reach(uint32_t shard) {
  const auto at = follows_.find(shard);
  if (at == follows_.end() || server_->copy(shard) == nullptr) return;
  if (at->second.server == 0 || at->second.stream != 0) return;
  SimServer* const leader = world_->MachineOf(at->second.server);
  if (leader == nullptr || world_->AreCut(server_->machine(), leader->machine()) ||
      world_->AreCut(leader->machine(), server_->machine()) ||
      !leader->TakeFollower(shard, server_->server())) {
    return ReachLater(shard);
  }
  at->second.stream = ++opened_;
  server_->OnReached(shard);
}

}  // namespace psgd::sim
