#include "worker/codec_choice.h"

#include <algorithm>

namespace psgd {

CodecChoice::CodecChoice(size_t candidates, int tries)
    : costs_(candidates),
      tries_(candidates),
      tries_each_(tries),
      tries_left_(candidates * static_cast<size_t>(tries)) {}

void CodecChoice::Tried(const CodecCost& cost) {
  if (tried()) return;
  CodecCost& best = costs_[current_];
  if (tries_[current_]++ == 0) {
    best = cost;
  } else {
    best.bytes = std::max(best.bytes, cost.bytes);
    best.encode_seconds = std::min(best.encode_seconds, cost.encode_seconds);
    best.decode_seconds = std::min(best.decode_seconds, cost.decode_seconds);
  }
  --tries_left_;
  // All steps of one candidate in a row: the first, which makes its buffers, is not the cheapest.
  if (tries_[current_] == tries_each_ && current_ + 1 < costs_.size()) ++current_;
}

double CodecChoice::Predict(size_t candidate, double bytes_per_second) const {
  const CodecCost& cost = costs_[candidate];
  return cost.encode_seconds + cost.bytes / bytes_per_second + cost.decode_seconds;
}

void CodecChoice::Choose(double bytes_per_second) {
  current_ = 0;
  for (size_t i = 1; i < costs_.size(); ++i) {
    if (Predict(i, bytes_per_second) < Predict(current_, bytes_per_second)) current_ = i;
  }
}

}  // namespace psgd
