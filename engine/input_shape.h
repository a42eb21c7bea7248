// What a network is built for.
#pragma once

namespace psgd {

// One sample and what it may be: an image with one label, or a sequence of tokens with a label
// each.
struct InputShape {
  int channels = 0;
  int height = 0;
  int width = 0;
  int classes = 0;
  int length = 0;      // tokens of a sequence; 0: an image
  int vocabulary = 0;  // tokens are below it

  bool IsSequence() const { return length > 0; }
};

}  // namespace psgd
