#include "tests/sim/sabotage.h"

#include <algorithm>

namespace psgd::sim {
namespace {
constexpr uint64_t kVictimAfter = 3;  // numbers; so that training has begun
}  // namespace

Saboteur::Sender Saboteur::SenderOf(const Message& message) {
  return {message.header.shard(), {message.header.worker(), message.header.incarnation()}};
}

std::vector<Message> Saboteur::OnMessage(Message message) {
  if (kind_ == Sabotage::kIgnoreGate && message.header.has_pull()) {
    message.header.mutable_pull()->set_clock(0);
  }
  if (kind_ == Sabotage::kForgetOwn && message.header.has_pull()) {
    message.header.mutable_pull()->clear_own_clock();
  }
  if (kind_ == Sabotage::kClaimNewer && message.header.has_pull()) {
    for (uint64_t& mark : *message.header.mutable_pull()->mutable_marks()) mark += mark > 0;
  }
  if (!message.header.has_push()) {
    if (auto shifted = shifted_from_.find(SenderOf(message));
        shifted != shifted_from_.end() && message.header.has_save_state()) {
      message.header.mutable_save_state()->set_seq(message.header.save_state().seq() + 1);
    }
    return {std::move(message)};
  }
  const Sender sender = SenderOf(message);
  Push* push = message.header.mutable_push();
  if (victim_.empty() && push->seq() > kVictimAfter && push->parts_size() > 0 &&
      push->end_of_clock()) {
    victim_[sender] = push->seq();
  }
  const auto victim = victim_.find(sender);
  const bool hit = victim != victim_.end() && victim->second == push->seq();
  if (auto shifted = shifted_from_.find(sender);
      shifted != shifted_from_.end() && push->seq() >= shifted->second) {
    push->set_seq(push->seq() + 1);
  }
  if (!hit) return {std::move(message)};
  switch (kind_) {
    case Sabotage::kRepeatPush: {
      Message again = message;
      shifted_from_[sender] = push->seq() + 1;
      again.header.mutable_push()->set_seq(push->seq() + 1);
      again.header.mutable_push()->set_clock(push->clock() + 1);
      again.header.mutable_push()->set_end_of_clock(false);
      return {std::move(message), std::move(again)};
    }
    case Sabotage::kLosePush:
      push->clear_parts();
      message.payloads.clear();
      break;
    case Sabotage::kChangePush: {
      const ByteSpan payload = message.payloads[0].span();
      std::vector<std::byte> changed(payload.begin(), payload.end());
      // The last element's sign: a whole number stays one.
      changed.back() ^= std::byte{0x80};
      message.payloads[0] = Bytes::Adopt(std::move(changed));
      break;
    }
    case Sabotage::kRefuseSound:
      push->mutable_parts(0)->set_codec(static_cast<CodecId>(77));
      break;
    default:
      break;
  }
  return {std::move(message)};
}

std::optional<ShardCommand> Saboteur::OnCommand(uint32_t shard, const ShardCommand& command) const {
  if (shard != 0) return command;
  if (const auto* removed = std::get_if<RemoveWorker>(&command); removed != nullptr && kind_ == Sabotage::kKeepDead) {
    RemoveWorker nobody = *removed;
    nobody.key.set_worker(UINT32_MAX);
    return nobody;
  }
  if (const auto* take = std::get_if<TakeCheckpoint>(&command)) {
    TakeCheckpoint changed = *take;
    if (kind_ == Sabotage::kLateCut) ++changed.clock;
    if (kind_ == Sabotage::kEarlyCut) --changed.clock;
    return changed;
  }
  return command;
}

void Saboteur::OnGive(ShardImage* image) const {
  if (kind_ != Sabotage::kForgetNumbers) return;
  for (MemberRecord& member : *image->record.mutable_members()) {
    member.set_next_seq(std::max<uint64_t>(member.next_seq(), 2) - 1);
  }
}

void Saboteur::OnGiveSince(DurableShard* durable, GivenSteps* given) const {
  if (kind_ == Sabotage::kDontStandStill && given->stands_still) durable->KeepOn();
  if (kind_ == Sabotage::kLoseSteps && given->stands_still) given->steps.entries.clear();
}

void Saboteur::OnAnswer(Message* message) const {
  auto shifted = shifted_from_.find(SenderOf(*message));
  if (shifted == shifted_from_.end()) return;
  const auto back = [&](uint64_t next) { return next > shifted->second ? next - 1 : next; };
  if (message->header.has_push_ack()) {
    PushAck* ack = message->header.mutable_push_ack();
    ack->set_next_seq(back(ack->next_seq()));
  } else if (message->header.has_refusal()) {
    Refusal* refusal = message->header.mutable_refusal();
    refusal->set_next_seq(back(refusal->next_seq()));
  } else if (message->header.has_welcome()) {
    Welcome* welcome = message->header.mutable_welcome();
    welcome->set_next_seq(back(welcome->next_seq()));
  }
}

}  // namespace psgd::sim
