// The samples that a network is built for.
#pragma once

namespace psgd {

// The shape of a sample: an image with one label, a sequence of tokens with a label each or one for
// all, or a sparse vector with one label. A sample may have real targets besides.
struct InputShape {
  int channels = 0;
  int height = 0;
  int width = 0;
  int classes = 0;     // outputs that the network needs
  int length = 0;      // tokens of a sequence
  int source = 0;      // leading tokens, padded with token 0, without labels
  int entries = 0;     // of a sparse vector: places for an index and its value
  int vocabulary = 0;  // tokens and indices are below it
  int targets = 0;     // real targets, as many as classes; 0: labels are classes

  bool IsSequence() const { return length > 0; }
  bool IsPair() const { return source > 0 && source < length; }
  bool HasOneLabel() const { return IsSequence() && source == length; }
  // Of a sequence.
  int labels() const { return HasOneLabel() ? 1 : length - source; }
  bool IsSparse() const { return entries > 0; }
};

}  // namespace psgd
