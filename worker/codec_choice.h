// Chooses one of several codecs for a tensor (compression.push: auto). Each codec is tried for some
// steps. The codec with the shortest predicted time is chosen: encoding, the way on the link and
// decoding.
#pragma once

#include <cstddef>
#include <vector>

namespace psgd {

// What a codec costs for one tensor in one step.
struct CodecCost {
  double bytes = 0;
  double encode_seconds = 0;
  double decode_seconds = 0;
};

// Not thread-safe.
class CodecChoice {
 public:
  // `tries`: how often each candidate is tried. REQUIRES: both are at least 1.
  CodecChoice(size_t candidates, int tries);

  // The candidate for the next step: each in turn while they are tried, then the first until one is
  // chosen.
  size_t current() const { return current_; }
  // Every candidate has been tried often enough.
  bool tried() const { return tries_.back().size() == tries_each_; }
  // The cost of a step that current() encoded. REQUIRES: !tried().
  void Tried(const CodecCost& cost);

  // Chooses the candidate that is fastest over such a link; among equals, the first. A later call
  // changes the choice only if that saves a tenth of the time, so small changes of the link do not
  // change it. Returns whether the choice is new. REQUIRES: tried().
  bool Choose(double bytes_per_second);

  // The median of the bytes of its tries, and the least of their times, because other work of the
  // machine can only make a try slower.
  CodecCost Cost(size_t candidate) const;
  double Predict(size_t candidate, double bytes_per_second) const;

 private:
  const size_t tries_each_;
  std::vector<std::vector<CodecCost>> tries_;  // of each candidate
  size_t current_ = 0;
  bool chosen_ = false;
};

}  // namespace psgd
