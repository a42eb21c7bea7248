// Labeled samples by index: the common form of every format. A sample is an image with one label or
// one label per pixel, a sequence of tokens with a label each, or a sparse vector with one label.
#pragma once

#include <cstddef>
#include <cstdint>
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

// Images of one size. Thread-safe: any number of threads may read at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual size_t size() const = 0;
  virtual SampleShape shape() const = 0;
  // Pixels in [0, 1], channel by channel, row by row; a label below shape().classes.
  // REQUIRES: index < size(); pixels.size() == shape().elements().
  virtual void Read(size_t index, std::span<float> pixels, int32_t* label) const = 0;
};

// Sequences of tokens. Thread-safe, as Dataset.
class TokenDataset {
 public:
  virtual ~TokenDataset() = default;
  virtual size_t size() const = 0;
  virtual SampleShape shape() const = 0;
  // Fills in tokens below shape().vocabulary, and for each token after the first shape().source a
  // label below shape().classes, or -1: not counted. An error means that the file changed since it
  // was opened, or cannot be read. REQUIRES: index < size(); tokens.size() == shape().elements();
  // labels.size() == shape().labels().
  virtual absl::Status Read(size_t index, std::span<int32_t> tokens,
                            std::span<int32_t> labels) const = 0;
};

// Images in separate files, of any size. Read decodes an image, which may fail, and cuts it to one
// size, at random if the config says so. Thread-safe, as Dataset.
class PictureDataset {
 public:
  virtual ~PictureDataset() = default;
  virtual size_t size() const = 0;
  virtual SampleShape shape() const = 0;
  // As Dataset::Read, with labels below shape().classes, or -1: not counted. DataLoss means that
  // this sample is damaged. REQUIRES: key.index < size(); pixels.size() == shape().elements();
  // labels.size() == shape().labels().
  virtual absl::Status Read(const SampleKey& key, std::span<float> pixels,
                            std::span<int32_t> labels) const = 0;
};

// Sparse vectors. Thread-safe, as Dataset.
class SparseDataset {
 public:
  virtual ~SparseDataset() = default;
  virtual size_t size() const = 0;
  virtual SampleShape shape() const = 0;
  // Fills in indices below shape().vocabulary with a value each. Unused places get 0 for both.
  // REQUIRES: key.index < size(); both spans have shape().entries places.
  virtual void Read(const SampleKey& key, std::span<int32_t> indices, std::span<float> values,
                    int32_t* label) const = 0;
};

}  // namespace psgd
