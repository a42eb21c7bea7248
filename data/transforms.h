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

using Transforms = std::vector<std::unique_ptr<const Transform>>;

// A dataset and the transforms of its samples, in order. Only images have transforms. Thread-safe.
class SampleSource {
 public:
  explicit SampleSource(std::shared_ptr<const Dataset> dataset, Transforms transforms = {})
      : dataset_(std::move(dataset)), transforms_(std::move(transforms)) {}

  size_t size() const { return dataset_->size(); }
  SampleShape shape() const { return dataset_->shape(); }
  // As Dataset::Read.
  absl::Status Read(const SampleKey& key, const Sample& sample) const {
    PSGD_RETURN_IF_ERROR(dataset_->Read(key, sample));
    for (const auto& transform : transforms_) transform->Apply(key, sample.values);
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const Dataset> dataset_;
  const Transforms transforms_;
};

}  // namespace psgd
