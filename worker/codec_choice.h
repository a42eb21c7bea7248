// Which of some codecs suits a tensor here and now (compression.push: auto): each is tried for some
// steps, and the one whose predicted time is the shortest is taken: encoding, the way on the link,
// decoding.
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

  // The candidate for the next step: each in turn while they are tried, then the first until one is
  // chosen.
  size_t current() const { return current_; }
  // Every candidate has been tried so often.
  bool tried() const { return tries_.back().size() == tries_each_; }
  // What the step that current() coded cost. REQUIRES: !tried().
  void Tried(const CodecCost& cost);

  // Takes the candidate that is fastest over such a link; the first of equals. Later it takes
  // another only where that saves a tenth, so that small changes do not make it waver. Returns
  // whether it did. REQUIRES: tried().
  bool Choose(double bytes_per_second);

  // Of its tries the median of the bytes, which may differ, and the least of the times: what else
  // the machine does only ever adds to them.
  CodecCost Cost(size_t candidate) const;
  double Predict(size_t candidate, double bytes_per_second) const;

 private:
  const size_t tries_each_;
  std::vector<std::vector<CodecCost>> tries_;  // of each candidate
  size_t current_ = 0;
  bool chosen_ = false;
};

}  // namespace psgd
