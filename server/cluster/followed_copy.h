// The leading copy, as a copy that follows it sees it: when it was heard, and what it is told. A
// copy that hears nothing asks: it tells the leading copy again which steps it has.
#pragma once

#include <cstdint>
#include <vector>

#include "common/clock.h"
#include "server/cluster/copy_message.h"

namespace psgd {

// Not thread-safe.
class FollowedCopy {
 public:
  // `silence`: after this time without a message the leading copy is asked again.
  FollowedCopy(uint32_t shard, Duration silence) : shard_(shard), silence_(silence) {}

  // The following copy has this number from now on: AssignedCopy.copy.
  void SetNumber(uint64_t copy);
  // The copy on that server leads from now on, under this epoch.
  void Begin(uint64_t epoch, uint32_t server, Time now);
  // It is reached over a new link: messages of both sides may be lost.
  void OnReached() {
    asks_ = true;
    image_comes_ = false;
  }
  // A part of a message from it has come. The rest is on its way.
  void OnPart(Time now);
  // A whole message from it has come.
  void Heard(Time now) {
    heard_ = now;
    image_comes_ = false;
  }
  // The leading copy sent what is of no use here. It is asked again at once.
  void CountAsSilent(Time now) { heard_ = now - silence_; }
  template <typename What>
  void Reply(const What& what) {
    replies_.push_back({server_, {shard_, epoch_, what}});
  }
  // Tells it what the following copy has, if that is due. `has`: without the copy's number. `lost`:
  // how long this process stood still since the last call.
  void Tick(const CopyMessage::Has& has, Time now, Duration lost);

  // Adds what is to be sent to it.
  void TakeReplies(std::vector<CopySend>* sends);
  void DropReplies() { replies_.clear(); }

  uint32_t server() const { return server_; }  // 0: no copy was followed yet

 private:
  const uint32_t shard_;
  const Duration silence_;
  uint64_t epoch_ = 0;
  uint32_t server_ = 0;
  uint64_t copy_ = 0;  // see SetNumber
  Time heard_{};       // when the leading copy was last heard
  Time asked_{};
  bool image_comes_ = false;  // a part of an image, or of a large step, has come
  bool asks_ = false;         // with the next Tick, whatever the leading copy sends meanwhile
  Time told_of_image_{};      // when it was last told that an image is on its way
  std::vector<CopySend> replies_;
};

}  // namespace psgd
