#include "data/batch.h"

#include <algorithm>
#include <new>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/units.h"

namespace psgd {
namespace {

size_t RoundUp(size_t bytes) { return (bytes + 63) / 64 * 64; }

// InvalidArgument and NotFound mean that nothing was trained yet (apps/exit_code.h). A wrong sample
// is found when it is read, in the middle of a run.
absl::Status WhileRunning(const absl::Status& status) {
  if (!absl::IsInvalidArgument(status) && !absl::IsNotFound(status)) return status;
  return absl::FailedPreconditionError(status.message());
}

}  // namespace

BatchMaker::BatchMaker(std::shared_ptr<const SampleSource> source, int batch, int kept)
    : source_(std::move(source)),
      batch_(static_cast<size_t>(batch)),
      elements_(source_->shape().elements()),
      labels_each_(source_->shape().labels()),
      values_offset_(RoundUp(batch_ * elements_ * sizeof(float))),
      labels_offset_(values_offset_ * (source_->shape().IsSparse() ? 2 : 1)),
      bytes_(labels_offset_ + batch_ * labels_each_ * sizeof(int32_t)),
      // The pool rounds sizes up to powers of two, at least 4 KiB.
      pool_(static_cast<size_t>(kept) * (2 * bytes_ + 4096)) {}

absl::StatusOr<Batch> BatchMaker::Make(uint32_t epoch, std::span<const uint32_t> indices) {
  try {
    return Fill(epoch, indices);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a batch of ", batch_, " samples of ",
                     source_->shape().ImageText(), " (", HumanBytes(static_cast<double>(bytes_)),
                     "); lower data.batch, data.eval_batch or data.prefetch"));
  }
}

absl::StatusOr<Batch> BatchMaker::Fill(uint32_t epoch, std::span<const uint32_t> indices) {
  std::shared_ptr<std::byte[]> buffer = pool_.Take(bytes_);
  const std::span labels(reinterpret_cast<int32_t*>(buffer.get() + labels_offset_),
                         batch_ * labels_each_);
  std::fill(labels.begin() + static_cast<ptrdiff_t>(indices.size() * labels_each_), labels.end(),
            -1);
  Batch batch;
  batch.labels = labels;
  if (source_->shape().IsSparse()) {
    FillSparse(epoch, indices, buffer.get(), labels, &batch);
  } else if (source_->shape().IsSequence()) {
    PSGD_ASSIGN_OR_RETURN(
        batch.tokens, FillTokens(epoch, indices, reinterpret_cast<int32_t*>(buffer.get()), labels));
  } else {
    PSGD_ASSIGN_OR_RETURN(
        batch.pixels, FillPixels(epoch, indices, reinterpret_cast<float*>(buffer.get()), labels));
  }
  batch.owner = std::move(buffer);
  return batch;
}

absl::StatusOr<std::span<const float>> BatchMaker::FillPixels(uint32_t epoch,
                                                              std::span<const uint32_t> indices,
                                                              float* memory,
                                                              std::span<int32_t> labels) const {
  const std::span pixels(memory, batch_ * elements_);
  for (size_t i = 0; i < indices.size(); ++i) {
    PSGD_RETURN_IF_ERROR(
        WhileRunning(source_->Read({epoch, indices[i]}, pixels.subspan(i * elements_, elements_),
                                   labels.subspan(i * labels_each_, labels_each_))));
  }
  std::fill(pixels.begin() + static_cast<ptrdiff_t>(indices.size() * elements_), pixels.end(),
            0.0f);
  return pixels;
}

absl::StatusOr<std::span<const int32_t>> BatchMaker::FillTokens(uint32_t epoch,
                                                                std::span<const uint32_t> indices,
                                                                int32_t* memory,
                                                                std::span<int32_t> labels) const {
  const std::span tokens(memory, batch_ * elements_);
  for (size_t i = 0; i < indices.size(); ++i) {
    PSGD_RETURN_IF_ERROR(WhileRunning(
        source_->ReadTokens({epoch, indices[i]}, tokens.subspan(i * elements_, elements_),
                            labels.subspan(i * labels_each_, labels_each_))));
  }
  std::fill(tokens.begin() + static_cast<ptrdiff_t>(indices.size() * elements_), tokens.end(), 0);
  return tokens;
}

void BatchMaker::FillSparse(uint32_t epoch, std::span<const uint32_t> indices, std::byte* memory,
                            std::span<int32_t> labels, Batch* out) const {
  const std::span features(reinterpret_cast<int32_t*>(memory), batch_ * elements_);
  const std::span values(reinterpret_cast<float*>(memory + values_offset_), batch_ * elements_);
  for (size_t i = 0; i < indices.size(); ++i) {
    source_->ReadSparse({epoch, indices[i]}, features.subspan(i * elements_, elements_),
                        values.subspan(i * elements_, elements_), &labels[i]);
  }
  const size_t filled = indices.size() * elements_;
  std::fill(features.begin() + static_cast<ptrdiff_t>(filled), features.end(), 0);
  std::fill(values.begin() + static_cast<ptrdiff_t>(filled), values.end(), 0.0f);
  out->tokens = features;
  out->values = values;
}

EvaluationBatches::EvaluationBatches(std::shared_ptr<const SampleSource> source, int batch)
    : samples_(static_cast<uint32_t>(source->size())),
      batch_(static_cast<uint32_t>(batch)),
      size_(samples_ / batch_ + (samples_ % batch_ != 0)),
      group_(source->shape().group),
      maker_(std::move(source), batch, /*kept=*/2) {}

absl::StatusOr<Batch> EvaluationBatches::Read(uint32_t index) {
  const uint32_t first = index * batch_;
  std::vector<uint32_t> indices(std::min(batch_, samples_ - first));
  std::iota(indices.begin(), indices.end(), first);
  return maker_.Make(/*epoch=*/0, indices);
}

}  // namespace psgd
