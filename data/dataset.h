// Labeled samples by index: the common form of every format. A sample is an image with one label or
// one label per pixel, a sequence of tokens with a label each or one for all, or a sparse vector
// with one label. A row of numbers is an image of one channel and one line. A sample may have real
// targets besides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/sample_shape.h"
#include "common/status.h"
#include "data/targets.h"
#include "proto/model.pb.h"

namespace psgd {

// A dataset has at most so many samples, because sample indices travel as u32, and an epoch's order
// holds one index for each sample.
inline constexpr size_t kMostSamples = size_t{1} << 30;

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
  std::span<float> targets = {};
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
  //   shape().source, or one for the sequence;
  // - a sparse vector: indices below shape().vocabulary, and values; unused places get 0 for both.
  // Labels are below shape().classes, or -1: not counted. Targets are as Targets says. DataLoss
  // means that this sample is damaged; another error, that the file changed since it was opened, or
  // cannot be read. REQUIRES: key.index < size(); values and tokens that samples have are
  // shape().elements() long, labels shape().labels(), targets shape().targets.
  virtual absl::Status Read(const SampleKey& key, const Sample& sample) const = 0;
};

// The samples that a function reads, as Dataset::Read; several threads may call it at once.
class ReadDataset final : public Dataset {
 public:
  using Reader = std::function<absl::Status(const SampleKey& key, const Sample& sample)>;

  ReadDataset(size_t size, const SampleShape& shape, Reader read)
      : size_(size), shape_(shape), read_(std::move(read)) {}

  size_t size() const override { return size_; }
  SampleShape shape() const override { return shape_; }
  absl::Status Read(const SampleKey& key, const Sample& sample) const override {
    return read_(key, sample);
  }

 private:
  const size_t size_;
  const SampleShape shape_;
  const Reader read_;
};

// Adds a line, unless it is empty, to lines for people.
inline void AddNote(absl::string_view line, std::string* notes) {
  if (!line.empty()) absl::StrAppend(notes, notes->empty() ? "" : "\n", line);
}

// The two sets that a format loads.
struct TrainAndTest {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
  Targets targets = {};          // none, if labels are classes
  Preparation preparation = {};  // without shape and targets
  std::string note = {};         // for people, if the sets may be wrong; lines
};

}  // namespace psgd
