#include "server/cluster/unsealed_checkpoint.h"

namespace psgd {

UnsealedCheckpoint::Next UnsealedCheckpoint::ForPart(const effect::WritePart& part) const {
  const Place place(part.run_epoch, part.checkpoint);
  if (place > place_) return Next::kBegin;
  if (place < place_ || discarded_) return Next::kPassOver;
  return written_.contains(part.shard) ? Next::kTell : Next::kWrite;
}

void UnsealedCheckpoint::Begun(const effect::WritePart& part) {
  place_ = {part.run_epoch, part.checkpoint};
  discarded_ = false;
  written_.clear();
}

bool UnsealedCheckpoint::Discard(const effect::DiscardParts& parts) {
  if (place_ != Place(parts.run_epoch, parts.checkpoint)) return false;
  discarded_ = true;
  written_.clear();
  return true;
}

}  // namespace psgd
