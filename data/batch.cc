#include "data/batch.h"

#include <algorithm>
#include <deque>
#include <future>
#include <new>
#include <numeric>
#include <utility>
#include <vector>

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
      values_offset_(source_->shape().IsSparse() ? RoundUp(batch_ * elements_ * sizeof(float)) : 0),
      targets_each_(static_cast<size_t>(source_->shape().targets)),
      labels_offset_(values_offset_ + RoundUp(batch_ * elements_ * sizeof(float))),
      targets_offset_(labels_offset_ + RoundUp(batch_ * labels_each_ * sizeof(int32_t))),
      bytes_(targets_offset_ + batch_ * targets_each_ * sizeof(float)),
      // The pool rounds sizes up to powers of two, at least 4 KiB.
      pool_(static_cast<size_t>(kept) * (2 * bytes_ + 4096)) {}

absl::StatusOr<Batch> BatchMaker::Make(uint32_t epoch, std::span<const uint32_t> indices) {
  try {
    return Fill(epoch, indices);
  } catch (const std::bad_alloc&) {
    return ResourceExhaustedError("no memory for a batch of ", batch_, " samples of ",
                                  source_->shape().ImageText(), " (",
                                  HumanBytes(static_cast<double>(bytes_)),
                                  "); lower data.batch, data.eval_batch or data.prefetch");
  }
}

absl::StatusOr<Batch> BatchMaker::Fill(uint32_t epoch, std::span<const uint32_t> indices) {
  std::shared_ptr<std::byte[]> buffer = pool_.Take(bytes_);
  const SampleShape shape = source_->shape();
  const size_t elements = batch_ * elements_;
  Sample all;
  if (!shape.IsSequence()) {
    all.values = {reinterpret_cast<float*>(buffer.get() + values_offset_), elements};
  }
  if (!shape.IsImage()) all.tokens = {reinterpret_cast<int32_t*>(buffer.get()), elements};
  all.labels = {reinterpret_cast<int32_t*>(buffer.get() + labels_offset_), batch_ * labels_each_};
  all.targets = {reinterpret_cast<float*>(buffer.get() + targets_offset_), batch_ * targets_each_};
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto own = [i](auto part, size_t each) {
      return part.empty() ? part : part.subspan(i * each, each);
    };
    PSGD_RETURN_IF_ERROR(WhileRunning(source_->Read(
        {epoch, indices[i]}, {own(all.values, elements_), own(all.tokens, elements_),
                              own(all.labels, labels_each_), own(all.targets, targets_each_)})));
  }
  const auto fill_rest = [&](auto part, size_t each, auto value) {
    if (!part.empty()) std::ranges::fill(part.subspan(indices.size() * each), value);
  };
  fill_rest(all.values, elements_, 0.0f);
  fill_rest(all.tokens, elements_, 0);
  fill_rest(all.labels, labels_each_, -1);
  fill_rest(all.targets, targets_each_, 0.0f);
  Batch batch;
  (shape.IsSparse() ? batch.values : batch.pixels) = all.values;
  batch.tokens = all.tokens;
  batch.labels = all.labels;
  batch.targets = all.targets;
  batch.owner = std::move(buffer);
  return batch;
}

EvaluationBatches::EvaluationBatches(std::shared_ptr<const SampleSource> source, int batch)
    : samples_(static_cast<uint32_t>(source->size())),
      batch_(static_cast<uint32_t>(batch)),
      size_(samples_ / batch_ + (samples_ % batch_ != 0)),
      shape_(source->shape()),
      maker_(std::move(source), batch, /*kept=*/2) {}

absl::StatusOr<Batch> EvaluationBatches::Read(uint32_t index) {
  const uint32_t first = index * batch_;
  std::vector<uint32_t> indices(std::min(batch_, samples_ - first));
  std::iota(indices.begin(), indices.end(), first);
  return maker_.Make(/*epoch=*/0, indices);
}

absl::Status ForEachBatch(EvaluationBatches& batches, int threads,
                          const std::function<absl::Status(uint32_t, const Batch&)>& take) {
  // A thread each, which is waited for where its batch is not taken.
  std::deque<std::future<absl::StatusOr<Batch>>> ahead;
  uint32_t asked = 0;
  for (uint32_t i = 0; i < batches.size(); ++i) {
    while (asked < batches.size() && ahead.size() <= static_cast<size_t>(threads)) {
      ahead.push_back(
          std::async(std::launch::async, [&batches, n = asked++] { return batches.Read(n); }));
    }
    PSGD_ASSIGN_OR_RETURN(const Batch batch, ahead.front().get());
    ahead.pop_front();
    PSGD_RETURN_IF_ERROR(take(i, batch));
  }
  return absl::OkStatus();
}

}  // namespace psgd
