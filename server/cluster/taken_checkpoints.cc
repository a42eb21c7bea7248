#include "server/cluster/taken_checkpoints.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace psgd {

void TakenCheckpoints::Await(uint64_t checkpoint, uint64_t request, Time deadline) {
  awaiting_.push_back({checkpoint, request, deadline});
}

void TakenCheckpoints::Ended(uint64_t checkpoint, const absl::StatusOr<SealedCheckpoint>& sealed,
                             Time now, ServerEffects* effects) {
  failed_ =
      sealed.ok() ? "" : absl::StrCat("checkpoint ", checkpoint, ": ", sealed.status().message());
  CheckpointReply reply;
  if (sealed.ok()) {
    taken_.emplace_back(sealed->info, now);
    best_ = sealed->best;
    std::erase_if(taken_, [&](const auto& entry) {
      return std::ranges::find(sealed->removed, entry.first.id()) != sealed->removed.end();
    });
    reply.set_id(checkpoint);
    reply.set_epoch(sealed->info.epoch());
    reply.set_clock(sealed->info.clock());
    reply.set_name(sealed->info.name());
  }
  std::erase_if(awaiting_, [&](const Awaiting& awaiting) {
    if (awaiting.checkpoint != checkpoint) return false;
    absl::StatusOr<ControlReply> answer = ControlReply(reply);
    if (!sealed.ok()) answer = sealed.status();
    effects->push_back(effect::Answer{awaiting.request, std::move(answer)});
    return true;
  });
}

void TakenCheckpoints::Tick(Time now, ServerEffects* effects) {
  std::erase_if(awaiting_, [&](const Awaiting& awaiting) {
    if (now < awaiting.deadline) return false;
    effects->push_back(effect::Answer{
        awaiting.request,
        absl::DeadlineExceededError(absl::StrCat(
            "checkpoint ", awaiting.checkpoint,
            " was asked for but no worker has reached the end of its segment within "
            "cluster.deadline; it will be taken when they do (cluster.segment sets how often)"))});
    return true;
  });
}

void TakenCheckpoints::Show(Time now, StatusReply* status) const {
  for (const auto& [checkpoint, taken] : taken_) {
    CheckpointInfo* const shown = status->add_checkpoints();
    *shown = checkpoint;
    shown->set_age_seconds(Seconds(now - taken));
    shown->set_best(best_ == checkpoint.id());
  }
  status->set_failed_checkpoint(failed_);
}

}  // namespace psgd
