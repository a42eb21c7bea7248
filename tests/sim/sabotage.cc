#include "tests/sim/sabotage.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/sim/gradients.h"

namespace psgd::sim {
namespace {

constexpr uint64_t kVictimAfter = 3;  // numbers; so that training has begun

std::vector<float> FloatsOf(const Bytes& payload) {
  std::vector<float> values(payload.size() / sizeof(float));
  std::memcpy(values.data(), payload.data(), values.size() * sizeof(float));
  return values;
}

bool AllFinite(const std::vector<Bytes>& payloads) {
  return std::ranges::all_of(payloads, [](const Bytes& payload) {
    return std::ranges::all_of(FloatsOf(payload), [](float value) { return std::isfinite(value); });
  });
}

}  // namespace

Saboteur::Sender Saboteur::SenderOf(const Message& message) {
  return {message.header.shard(), {message.header.worker(), message.header.incarnation()}};
}

void Saboteur::ChangeOther(Message* message) const {
  DataHeader& header = message->header;
  if (kind_ == Sabotage::kIgnoreGate && header.has_pull()) header.mutable_pull()->set_clock(0);
  if (kind_ == Sabotage::kForgetOwn && header.has_pull()) header.mutable_pull()->clear_own_clock();
  if (kind_ == Sabotage::kClaimNewer && header.has_pull()) {
    for (uint64_t& mark : *header.mutable_pull()->mutable_marks()) mark += mark > 0;
  }
  if (!header.has_save_state()) return;
  if (shifted_from_.contains(SenderOf(*message)))
    header.mutable_save_state()->set_seq(header.save_state().seq() + 1);
  if (kind_ != Sabotage::kChangeState) return;
  for (Bytes& payload : message->payloads) {
    std::vector<float> changed = FloatsOf(payload);
    for (float& value : changed) value += 1;
    payload = Bytes::CopyOf(AsBytes(changed));
  }
}

bool Saboteur::IsVictim(const Sender& sender, const Push& push) {
  if (push.parts_size() == 0 || !push.end_of_clock()) return false;
  if (kind_ == Sabotage::kApplyRepeats) {
    // The latest that was absorbed, once more.
    return shifted_from_.empty() && push.seq() > kVictimAfter &&
           push.seq() + 1 == acknowledged_[sender];
  }
  if (victim_.empty() && push.seq() > kVictimAfter &&
      (kind_ != Sabotage::kRepeatLate || IsLate(sender, push))) {
    victim_[sender] = push.seq();
  }
  const auto victim = victim_.find(sender);
  return victim != victim_.end() && victim->second == push.seq();
}

bool Saboteur::IsLate(const Sender& sender, const Push& push) {
  return push.clock() <= slowest_[sender.first] && push.seq() >= acknowledged_[sender];
}

std::vector<Message> Saboteur::OnMessage(Message message) {
  if (!message.header.has_push()) {
    ChangeOther(&message);
    return {std::move(message)};
  }
  const Sender sender = SenderOf(message);
  Push* push = message.header.mutable_push();
  const bool hit = IsVictim(sender, *push);
  if (auto shifted = shifted_from_.find(sender);
      shifted != shifted_from_.end() && push->seq() >= shifted->second) {
    push->set_seq(push->seq() + 1);
  }
  if (kind_ == Sabotage::kCleanPoison) {
    for (Bytes& payload : message.payloads) {
      std::vector<float> clean = FloatsOf(payload);
      for (float& value : clean) value = std::isfinite(value) ? value : 0;
      payload = Bytes::CopyOf(AsBytes(clean));
    }
  }
  if (kind_ == Sabotage::kHidePoison && !AllFinite(message.payloads)) {
    push->clear_parts();
    message.payloads.clear();
  }
  if (kind_ == Sabotage::kTrustLost) {
    for (PushPart& part : *push->mutable_parts()) part.set_base_version(0);
  }
  if (!hit) return {std::move(message)};
  return ChangeVictim(sender, std::move(message));
}

std::vector<Message> Saboteur::ChangeVictim(const Sender& sender, Message message) {
  Push* push = message.header.mutable_push();
  const auto repeat = [&] {
    Message again = message;
    shifted_from_[sender] = push->seq() + 1;
    again.header.mutable_push()->set_seq(push->seq() + 1);
    again.header.mutable_push()->set_clock(push->clock() + 1);
    again.header.mutable_push()->set_end_of_clock(false);
    return again;
  };
  switch (kind_) {
    case Sabotage::kRepeatPush:
    case Sabotage::kRepeatLate: {
      Message again = repeat();
      return {std::move(message), std::move(again)};
    }
    case Sabotage::kApplyRepeats:
      return {repeat()};
    case Sabotage::kLosePush:
      push->clear_parts();
      message.payloads.clear();
      break;
    case Sabotage::kLosePart:
      push->mutable_parts()->RemoveLast();
      message.payloads.pop_back();
      break;
    case Sabotage::kChangePush: {
      std::vector<float> changed = FloatsOf(message.payloads[0]);
      changed.back() = -changed.back();
      message.payloads[0] = Bytes::CopyOf(AsBytes(changed));
      break;
    }
    case Sabotage::kForgePush: {
      std::vector<float> changed = FloatsOf(message.payloads[0]);
      const auto mark = std::find(changed.begin(), changed.begin() + kRegister, -1.0f);
      std::iter_swap(mark, changed.begin() + kRegister - 1);
      message.payloads[0] = Bytes::CopyOf(AsBytes(changed));
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

ShardCommand Saboteur::OnCommand(uint32_t shard, const ShardCommand& command) const {
  if (shard != 0) return command;
  if (const auto* removed = std::get_if<RemoveWorker>(&command);
      removed != nullptr && kind_ == Sabotage::kKeepDead) {
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

void Saboteur::OnCut(const ShardCore& core, ShardCut* cut) const {
  if (kind_ != Sabotage::kIgnoreMarker) return;
  const auto now = core.ShareWeights();
  for (SliceSnapshot& slice : cut->snapshot.slices) {
    for (const auto& [id, weights] : now) {
      if (id == slice.id) slice.weights = weights;
    }
  }
}

void Saboteur::HideLoss(const Sender& sender, PullReply* reply) {
  for (PullPart& part : *reply->mutable_parts()) {
    uint64_t& newest = versions_[{sender, part.slice()}];
    newest = std::max(newest, part.version());
    part.set_version(newest);
  }
}

void Saboteur::OnAnswer(Message* message) {
  if (kind_ == Sabotage::kTrustLost && message->header.has_pull_reply()) {
    HideLoss(SenderOf(*message), message->header.mutable_pull_reply());
  }
  if (message->header.has_pull_reply()) {
    uint64_t& slowest = slowest_[message->header.shard()];
    slowest = std::max(slowest, message->header.pull_reply().slowest_clock());
  }
  if (message->header.has_push_ack()) {
    uint64_t& below = acknowledged_[SenderOf(*message)];
    below = std::max(below, message->header.push_ack().next_seq());
  }
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
