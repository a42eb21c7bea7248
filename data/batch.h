// Samples side by side, as a network reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "common/bytes.h"
#include "common/status.h"
#include "data/transforms.h"

namespace psgd {

// One batch. Copies share the buffer.
struct Batch {
  // A span is empty if samples have no such part.
  std::span<const float> pixels;    // batch x channels x height x width; all aligned to 64 bytes
  std::span<const int32_t> tokens;  // batch x length, or the indices of batch x entries
  std::span<const float> values;    // batch x entries
  std::span<const int32_t> labels;  // one per sample, token or pixel; -1: padding, not counted
  std::span<const float> targets;   // batch x targets
  std::shared_ptr<const std::byte[]> owner;
};

// Reads samples into pooled buffers. Thread-safe. Batches may outlive it.
class BatchMaker {
 public:
  // `kept`: number of buffers to keep for reuse.
  BatchMaker(std::shared_ptr<const SampleSource> source, int batch, int kept);

  // If there are fewer samples than the batch holds, zeros and label -1 fill it up. An error of a
  // sample is DataLoss or FailedPrecondition, because it appears in the middle of a run.
  // REQUIRES: indices.size() <= batch, each below the source's size.
  absl::StatusOr<Batch> Make(uint32_t epoch, std::span<const uint32_t> indices);

 private:
  absl::StatusOr<Batch> Fill(uint32_t epoch, std::span<const uint32_t> indices);

  const std::shared_ptr<const SampleSource> source_;
  const size_t batch_;
  const size_t elements_;        // in a sample: pixels, tokens or entries, four bytes each
  const size_t labels_each_;     // in a sample
  const size_t values_offset_;   // after the indices, if there are any; else 0
  const size_t targets_each_;    // likewise
  const size_t labels_offset_;   // in the buffer: after the parts of the input
  const size_t targets_offset_;  // after the labels
  const size_t bytes_;           // of the buffer
  BufferPool pool_;
};

// The test set in batches of one size; the last is padded. Thread-safe.
class EvaluationBatches {
 public:
  EvaluationBatches(std::shared_ptr<const SampleSource> source, int batch);

  uint32_t size() const { return size_; }
  const SampleShape& shape() const { return shape_; }
  // REQUIRES: index < size().
  absl::StatusOr<Batch> Read(uint32_t index);

 private:
  const uint32_t samples_;
  const uint32_t batch_;
  const uint32_t size_;
  const SampleShape shape_;
  BatchMaker maker_;
};

// Calls take(index, batch) for each batch in order, while `threads` threads read the next ones.
// Ends at the first error. REQUIRES: threads is at least 1.
absl::Status ForEachBatch(EvaluationBatches& batches, int threads,
                          const std::function<absl::Status(uint32_t, const Batch&)>& take);

}  // namespace psgd
