#include "server/control/copy_wire.h"

#include <memory>
#include <utility>

namespace psgd {

FollowingSays EncodeFollowing(const CopyMessage& message) {
  FollowingSays says;
  says.set_epoch(message.epoch);
  if (const auto* has = std::get_if<CopyMessage::Has>(&message.what)) {
    says.mutable_has()->set_log_epoch(has->log_epoch);
    says.mutable_has()->set_entries(has->entries);
    says.mutable_has()->set_copy(has->copy);
  } else if (std::holds_alternative<CopyMessage::TakesImage>(message.what)) {
    says.set_takes_image(true);
  } else {
    says.set_written(std::get<CopyMessage::Written>(message.what).entries);
  }
  return says;
}

absl::StatusOr<CopyMessage> DecodeFollowing(uint32_t shard, const FollowingSays& says) {
  CopyMessage message{shard, says.epoch(), CopyMessage::Written{}};
  switch (says.says_case()) {
    case FollowingSays::kHas:
      message.what =
          CopyMessage::Has{says.has().log_epoch(), says.has().entries(), says.has().copy()};
      return message;
    case FollowingSays::kWritten:
      message.what = CopyMessage::Written{says.written()};
      return message;
    case FollowingSays::kTakesImage:
      message.what = CopyMessage::TakesImage{};
      return message;
    case FollowingSays::kHello:
    case FollowingSays::SAYS_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a message of a copy that this server does not know");
}

bool SendLeading(const CopyMessage& message, const std::function<bool(const LeadingSays&)>& send) {
  LeadingSays says;
  says.set_epoch(message.epoch);
  if (const auto* image = std::get_if<CopyMessage::Image>(&message.what)) {
    return SendImage(message.shard, *image->image, [&](const ShardPart& part) {
      *says.mutable_image() = part;
      return send(says);
    });
  }
  const auto& steps = std::get<CopyMessage::Steps>(message.what);
  EncodeEntries(steps.steps.first, steps.steps.entries, says.mutable_steps()->mutable_entries());
  says.mutable_steps()->set_checkpoint_done(steps.checkpoint_done);
  return send(says);
}

absl::StatusOr<std::optional<CopyMessage>> LeadingReader::Add(const LeadingSays& says) {
  CopyMessage message{shard_, says.epoch(), CopyMessage::Written{}};
  if (says.has_steps()) {
    PSGD_ASSIGN_OR_RETURN(JournalEntries entries, DecodeEntries(says.steps().entries()));
    message.what = CopyMessage::Steps{std::move(entries), says.steps().checkpoint_done()};
    return message;
  }
  if (!says.has_image()) {
    return absl::InvalidArgumentError("a message of a copy that this server does not know");
  }
  PSGD_ASSIGN_OR_RETURN(auto whole, parts_.Add(says.image()));
  if (!whole) return std::nullopt;
  auto* const image = std::get_if<ShardImage>(&*whole);
  if (image == nullptr) return absl::InvalidArgumentError("an image was to come, and did not");
  message.what = CopyMessage::Image{std::make_shared<const ShardImage>(std::move(*image))};
  return message;
}

}  // namespace psgd
