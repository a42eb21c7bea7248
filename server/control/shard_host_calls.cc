// The part of ShardHost that does what the coordinator asks for.
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/control/shard_host.h"
#include "server/shard/shard_order.h"

namespace psgd {

void ShardHost::Carry(const HostTold::Call& call) {
  HostSays says;
  HostSays::Answer* const answer = says.mutable_answer();
  answer->set_call(call.call());
  const absl::Status status = CarryOut(call, answer);
  if (status.ok() && call.has_give()) return;  // its image comes first
  answer->set_code(static_cast<int32_t>(status.code()));
  answer->set_message(std::string(status.message()));
  if (call.call() != 0) Say(says);
}

absl::Status ShardHost::CarryOut(const HostTold::Call& call, HostSays::Answer* answer) {
  const uint32_t index = call.shard();
  if (call.what_case() == HostTold::Call::kTake) return Take(index, call.take(), answer);
  const std::shared_ptr<ShardServer> shard = set_->Find(index);
  if (shard == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("server ", server(), " does not hold shard ", index));
  }
  switch (call.what_case()) {
    case HostTold::Call::kOrder: {
      PSGD_ASSIGN_OR_RETURN(const ShardCommand command, FromOrder(call.order()));
      PSGD_RETURN_IF_ERROR(shard->Execute(command, call.order().number()).get());
      break;
    }
    case HostTold::Call::kGive: {
      PSGD_ASSIGN_OR_RETURN(ShardImage image, shard->Give());
      // Other shards' orders do not wait for it.
      HostSays says;
      answer->set_written_order(shard->written_order());
      *says.mutable_answer() = *answer;
      to_write_.TryPush({index, Given{Link(), std::move(image), std::move(says)}});
      return absl::OkStatus();
    }
    case HostTold::Call::kSince: {
      PSGD_ASSIGN_OR_RETURN(const GivenSteps given,
                            shard->GiveSince(call.since().entry(), call.since().last()));
      const auto link = Link();
      (void)SendEntries(index, given.steps,
                        [&](const ShardPart& part) { return SayPart(*link, part); });
      answer->set_stands_still(given.stands_still);
      answer->set_checkpoint_done(given.checkpoint_done);
      break;
    }
    case HostTold::Call::kFollow:
      PSGD_RETURN_IF_ERROR(shard->Follow({arriving_[index].TakeEntries(), call.follow(), false}));
      break;
    case HostTold::Call::kKeepOn:
      shard->KeepOn();
      break;
    case HostTold::Call::kDrop: {
      {
        std::lock_guard lock(mutex_);
        shards_.erase(index);
        cuts_.erase(index);
      }
      PSGD_RETURN_IF_ERROR(SaveRecord());
      set_->Drop(index);
      log_->info("shard {} is on another server now", index);
      return absl::OkStatus();
    }
    case HostTold::Call::kWeights:
      PSGD_RETURN_IF_ERROR(shard->Weights([&](uint32_t slice, const Bytes& values) {
        HostSays says;
        says.mutable_values()->set_call(call.call());
        says.mutable_values()->set_slice(slice);
        says.mutable_values()->set_values(values.data(), values.size());
        return Say(says) ? absl::OkStatus() : absl::UnavailableError("the coordinator is gone");
      }));
      break;
    case HostTold::Call::kCheckpointDone: {
      shard->CheckpointDone(call.checkpoint_done());
      std::lock_guard lock(mutex_);
      const auto cut = cuts_.find(index);
      if (cut != cuts_.end() && cut->second->checkpoint <= call.checkpoint_done()) cuts_.erase(cut);
      break;
    }
    default:
      return absl::UnimplementedError("a call that this server does not know");
  }
  answer->set_written_order(shard->written_order());
  return absl::OkStatus();
}

absl::Status ShardHost::Take(uint32_t shard, uint32_t starts, HostSays::Answer* answer) {
  PSGD_ASSIGN_OR_RETURN(const ShardImage image, arriving_[shard].TakeImage());
  // What is here of it is of a move that was cut short.
  if (set_->Find(shard) != nullptr) set_->Drop(shard);
  PSGD_ASSIGN_OR_RETURN(auto durable, set_->FromImage(image, shard, starts));
  PSGD_ASSIGN_OR_RETURN(auto server, set_->Serve(shard, std::move(durable), /*stands_still=*/true));
  {
    std::lock_guard lock(mutex_);
    shards_[shard] = server;
  }
  PSGD_RETURN_IF_ERROR(SaveRecord());
  answer->set_address(server->address());
  answer->set_written_order(image.record.last_order());
  log_->info("holds shard {} now, {} bytes of weights", shard, server->Status().bytes());
  return absl::OkStatus();
}

}  // namespace psgd
