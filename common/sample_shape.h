// The samples of a dataset, and what a network is built for.
#pragma once

#include <cstddef>
#include <string>

namespace psgd {

// The shape of one sample, and its number of labels. A sample is an image with one label or one
// label per pixel, a sequence of tokens with a label each or one for all, or a sparse vector with
// one label. It may have real targets besides.
struct SampleShape {
  int channels = 0;
  int height = 0;
  int width = 0;
  int classes = 0;  // outputs that a network needs: classes, or the number of targets
  int length = 0;   // tokens of a sequence
  // Leading tokens, which have no labels; padded with token 0. If no token has a label, the whole
  // sequence has one.
  int source = 0;
  int entries = 0;     // of a sparse vector: places for an index and its value
  int vocabulary = 0;  // tokens and indices are below it
  // For a test by ranks: this many consecutive samples compete, and the first of them should win.
  // 0: no such test.
  int group = 0;
  bool label_each_pixel = false;
  // Real targets. The label of such a sample says only whether it counts: 0, or -1. 0: none, and
  // labels are classes.
  int targets = 0;

  bool IsImage() const { return !IsSequence() && !IsSparse(); }
  bool IsSequence() const { return length > 0; }
  bool IsPair() const { return source > 0 && source < length; }
  bool HasOneLabel() const { return IsSequence() && source == length; }
  bool IsSparse() const { return entries > 0; }
  size_t labels() const {
    if (length > source) return static_cast<size_t>(length - source);
    return label_each_pixel ? static_cast<size_t>(height) * static_cast<size_t>(width) : 1;
  }
  // Pixels, tokens or entries.
  size_t elements() const {
    if (IsSparse()) return static_cast<size_t>(entries);
    if (IsSequence()) return static_cast<size_t>(length);
    return static_cast<size_t>(channels) * static_cast<size_t>(height) * static_cast<size_t>(width);
  }
  // For people: "1x28x28", "12 values", "128 tokens", "20 and 22 tokens", "14 of 123 features".
  std::string ImageText() const {
    if (IsSparse())
      return std::to_string(entries) + " of " + std::to_string(vocabulary) + " features";
    if (IsPair()) {
      return std::to_string(source) + " and " + std::to_string(length - source) + " tokens";
    }
    if (IsSequence()) return std::to_string(length) + " tokens";
    if (channels == 1 && height == 1) return std::to_string(width) + " values";
    return std::to_string(channels) + "x" + std::to_string(height) + "x" + std::to_string(width);
  }
};

}  // namespace psgd
