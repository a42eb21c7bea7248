// Labeled samples by index: the common form of every format. A sample is an image with one label or
// one label per pixel, a sequence of tokens with a label each, or a sparse vector with one label.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/status.h"

namespace psgd {

// The shape of one sample, and its number of labels.
struct SampleShape {
  int channels = 0;
  int height = 0;
  int width = 0;
  int classes = 0;
  int length = 0;      // tokens of a sequence
  int source = 0;      // leading tokens, which have no labels; padded with token 0
  int entries = 0;     // of a sparse vector: places for an index and its value
  int vocabulary = 0;  // tokens and indices are below it
  // For a test by ranks: this many consecutive samples compete, and the first of them should win.
  // 0: no such test.
  int group = 0;
  bool label_each_pixel = false;

  bool IsImage() const { return !IsSequence() && !IsSparse(); }
  bool IsSequence() const { return length > 0; }
  bool IsSparse() const { return entries > 0; }
  size_t labels() const {
    if (IsSequence()) return static_cast<size_t>(length - source);
    return label_each_pixel ? static_cast<size_t>(height) * static_cast<size_t>(width) : 1;
  }
  // Pixels, tokens or entries.
  size_t elements() const {
    if (IsSparse()) return static_cast<size_t>(entries);
    if (IsSequence()) return static_cast<size_t>(length);
    return static_cast<size_t>(channels) * static_cast<size_t>(height) * static_cast<size_t>(width);
  }
  bool SameImage(const SampleShape& other) const {
    return channels == other.channels && height == other.height && width == other.width;
  }
  // For people: "1x28x28", "128 tokens", "20 and 22 tokens" or "14 of 123 features".
  std::string ImageText() const {
    if (IsSparse())
      return std::to_string(entries) + " of " + std::to_string(vocabulary) + " features";
    if (source > 0) {
      return std::to_string(source) + " and " + std::to_string(length - source) + " tokens";
    }
    if (IsSequence()) return std::to_string(length) + " tokens";
    return std::to_string(channels) + "x" + std::to_string(height) + "x" + std::to_string(width);
  }
};

// A sample and a pass over the data. All randomness of a sample comes from this key and the seed
// alone, so every thread and worker reads the same sample.
struct SampleKey {
  uint32_t epoch = 0;
  uint64_t index = 0;
};

// Where the parts of a sample go. A span is empty if samples have no such part.
struct Sample {
  std::span<float> values = {};    // pixels, or the values of a sparse vector
  std::span<int32_t> tokens = {};  // tokens, or the indices of a sparse vector
  std::span<int32_t> labels = {};
};

// Samples of one shape. Thread-safe: any number of threads may read at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual size_t size() const = 0;
  virtual SampleShape shape() const = 0;
  // Fills in a sample:
  // - an image: pixels in [0, 1], channel by channel, row by row;
  // - a sequence: tokens below shape().vocabulary, with a label for each after the first
  //   shape().source;
  // - a sparse vector: indices below shape().vocabulary, and values; unused places get 0 for both.
  // Labels are below shape().classes, or -1: not counted. DataLoss means that this sample is
  // damaged; another error, that the file changed since it was opened, or cannot be read.
  // REQUIRES: key.index < size(); values and tokens that samples have are shape().elements() long,
  // labels shape().labels().
  virtual absl::Status Read(const SampleKey& key, const Sample& sample) const = 0;
};

// The two sets that a format loads.
struct TrainAndTest {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
};

}  // namespace psgd
