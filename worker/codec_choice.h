// Which of some codecs suits a tensor here and now (compression.auto): each is tried for some steps,
// and the one whose predicted time is the shortest is taken: encoding, the way on the wire, decoding.
#pragma once

#include <cstddef>
#include <vector>

namespace psgd {

// Of one step of one tensor.
struct CodecCost {
  double bytes = 0;
  double encode_seconds = 0;
  double decode_seconds = 0;
};

// Not thread-safe.
class CodecChoice {
 public:
  // REQUIRES: both at least 1.
  CodecChoice(size_t candidates, int tries);

  // The candidate for the next step: each in turn while they are tried, then the one chosen.
  size_t current() const { return current_; }
  // Every candidate has been tried so often.
  bool tried() const { return tries_left_ == 0; }
  // What the step that current() coded cost. Of several the cheapest counts: what else the machine
  // does only ever adds.
  void Tried(const CodecCost& cost);

  // Takes the candidate that is fastest over a link of so many bytes a second; the first of equals.
  // REQUIRES: tried().
  void Choose(double bytes_per_second);

  const CodecCost& cost(size_t candidate) const { return costs_[candidate]; }
  double Predict(size_t candidate, double bytes_per_second) const;

 private:
  std::vector<CodecCost> costs_;
  std::vector<int> tries_;  // of each so far
  const int tries_each_;
  size_t tries_left_;
  size_t current_ = 0;
};

}  // namespace psgd
