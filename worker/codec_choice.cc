#include "worker/codec_choice.h"

#include <algorithm>
#include <utility>

#include "common/median.h"

namespace psgd {
namespace {

constexpr double kWorthwhile = 0.9;  // of the time that the present choice takes

}  // namespace

CodecChoice::CodecChoice(size_t candidates, int tries)
    : tries_each_(static_cast<size_t>(tries)), tries_(candidates) {}

void CodecChoice::Tried(const CodecCost& cost) {
  tries_[current_].push_back(cost);
  // All of one in a row: the first, which makes its buffers, is not what the others cost.
  if (tries_[current_].size() == tries_each_) current_ = (current_ + 1) % tries_.size();
}

CodecCost CodecChoice::Cost(size_t candidate) const {
  CodecCost cost = tries_[candidate][0];
  std::vector<double> bytes;
  for (const CodecCost& each : tries_[candidate]) {
    bytes.push_back(each.bytes);
    cost.encode_seconds = std::min(cost.encode_seconds, each.encode_seconds);
    cost.decode_seconds = std::min(cost.decode_seconds, each.decode_seconds);
  }
  cost.bytes = Median(std::move(bytes));
  return cost;
}

double CodecChoice::Predict(size_t candidate, double bytes_per_second) const {
  const CodecCost cost = Cost(candidate);
  return cost.encode_seconds + cost.bytes / bytes_per_second + cost.decode_seconds;
}

bool CodecChoice::Choose(double bytes_per_second) {
  size_t fastest = 0;
  double least = Predict(0, bytes_per_second);
  for (size_t i = 1; i < tries_.size(); ++i) {
    const double seconds = Predict(i, bytes_per_second);
    if (seconds >= least) continue;
    fastest = i;
    least = seconds;
  }
  if (chosen_ && least > kWorthwhile * Predict(current_, bytes_per_second)) return false;
  const bool other = !chosen_ || fastest != current_;
  chosen_ = true;
  current_ = fastest;
  return other;
}

}  // namespace psgd
