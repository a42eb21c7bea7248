// Changes of a sample between the dataset and the network, in place; one class for each.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/philox.h"
#include "common/status.h"
#include "data/dataset.h"
#include "data/normalization.h"

namespace psgd {

// Changes a sample in place. Thread-safe: immutable.
class Transform {
 public:
  virtual ~Transform() = default;
  virtual void Apply(const SampleKey& key, std::span<float> pixels) const = 0;
};

// Pads each side with `padding` zeros (black, because it runs before normalization), then cuts out
// an image of the old size at a random place.
class RandomCrop final : public Transform {
 public:
  // REQUIRES: padding < height and padding < width, so that part of the image is left.
  RandomCrop(const SampleShape& shape, int padding, uint64_t seed);
  void Apply(const SampleKey& key, std::span<float> pixels) const override;

 private:
  const SampleShape shape_;
  const int padding_;
  const PhiloxKey random_;
};

// Mirrors left and right in half of the cases.
class RandomFlip final : public Transform {
 public:
  RandomFlip(const SampleShape& shape, uint64_t seed);
  void Apply(const SampleKey& key, std::span<float> pixels) const override;

 private:
  const SampleShape shape_;
  const PhiloxKey random_;
};

// Computes (x - mean) / stddev, channel by channel.
class Normalize final : public Transform {
 public:
  // REQUIRES: one mean and stddev per channel.
  Normalize(const SampleShape& shape, const Normalization& normalization);
  void Apply(const SampleKey& key, std::span<float> pixels) const override;

 private:
  const size_t plane_;
  const std::vector<float> mean_;
  std::vector<float> inverse_;
};

// A dataset and the transforms of its samples, in order. Images and pictures are transformed;
// sequences and sparse vectors are not. Thread-safe.
class SampleSource {
 public:
  explicit SampleSource(std::shared_ptr<const TokenDataset> sequences)
      : sequences_(std::move(sequences)) {}
  explicit SampleSource(std::shared_ptr<const SparseDataset> vectors)
      : vectors_(std::move(vectors)) {}
  SampleSource(std::shared_ptr<const Dataset> dataset,
               std::vector<std::unique_ptr<const Transform>> transforms)
      : dataset_(std::move(dataset)), transforms_(std::move(transforms)) {}
  SampleSource(std::shared_ptr<const PictureDataset> pictures,
               std::vector<std::unique_ptr<const Transform>> transforms)
      : pictures_(std::move(pictures)), transforms_(std::move(transforms)) {}

  size_t size() const {
    return Of<size_t>([](const auto& set) { return set.size(); });
  }
  SampleShape shape() const {
    return Of<SampleShape>([](const auto& set) { return set.shape(); });
  }
  // REQUIRES: samples are sequences; as TokenDataset::Read.
  absl::Status ReadTokens(const SampleKey& key, std::span<int32_t> tokens,
                          std::span<int32_t> labels) const {
    return sequences_->Read(key.index, tokens, labels);
  }
  // REQUIRES: samples are sparse vectors; as SparseDataset::Read.
  void ReadSparse(const SampleKey& key, std::span<int32_t> indices, std::span<float> values,
                  int32_t* label) const {
    vectors_->Read(key, indices, values, label);
  }
  // REQUIRES: samples are images or pictures; as Dataset::Read, with shape().labels() labels.
  absl::Status Read(const SampleKey& key, std::span<float> pixels,
                    std::span<int32_t> labels) const {
    if (pictures_) {
      PSGD_RETURN_IF_ERROR(pictures_->Read(key, pixels, labels));
    } else {
      dataset_->Read(key.index, pixels, labels.data());
    }
    for (const auto& transform : transforms_) transform->Apply(key, pixels);
    return absl::OkStatus();
  }

 private:
  template <typename Result, typename Visit>
  Result Of(Visit visit) const {
    if (sequences_) return visit(*sequences_);
    if (vectors_) return visit(*vectors_);
    return pictures_ ? visit(*pictures_) : visit(*dataset_);
  }

  // Exactly one of the four datasets is set.
  const std::shared_ptr<const TokenDataset> sequences_;
  const std::shared_ptr<const SparseDataset> vectors_;
  const std::shared_ptr<const Dataset> dataset_;
  const std::shared_ptr<const PictureDataset> pictures_;
  const std::vector<std::unique_ptr<const Transform>> transforms_;
};

}  // namespace psgd
