#include "server/cluster/followed_copy.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace psgd {

void FollowedCopy::SetNumber(uint64_t copy) {
  if (std::exchange(copy_, copy) != copy) OnReached();  // tells the leading copy
}

void FollowedCopy::Begin(uint64_t epoch, uint32_t server, Time now) {
  epoch_ = epoch;
  server_ = server;
  heard_ = now;
  OnReached();
  replies_.clear();
}

void FollowedCopy::OnPart(Time now) {
  heard_ = now;
  image_comes_ = true;  // or a large step: its end comes soon
  if (now < told_of_image_ + silence_ / CopyMessage::kSignsPerSilence) return;
  told_of_image_ = now;
  Reply(CopyMessage::TakesImage{});
}

void FollowedCopy::Tick(const CopyMessage::Has& has, Time now, Duration lost) {
  heard_ = std::min(heard_ + lost, now);
  // A question in the middle of an image would say that nothing of it could be written.
  const Duration patience =
      image_comes_ ? std::max(CopyMessage::kImagePatience, silence_) : silence_;
  const bool silence = now >= heard_ + patience && now >= asked_ + silence_;
  if (!asks_ && !silence) return;
  asks_ = false;
  asked_ = now;
  Reply(CopyMessage::Has{has.log_epoch, has.entries, copy_});
}

void FollowedCopy::TakeReplies(std::vector<CopySend>* sends) {
  std::move(replies_.begin(), replies_.end(), std::back_inserter(*sends));
  replies_.clear();
}

}  // namespace psgd
