// The first samples of another dataset. Thread-safe, as every dataset.
#pragma once

#include <memory>
#include <utility>

#include "data/dataset.h"

namespace psgd {

class PrefixDataset final : public Dataset {
 public:
  // REQUIRES: size <= whole->size().
  PrefixDataset(std::shared_ptr<const Dataset> whole, size_t size)
      : whole_(std::move(whole)), size_(size) {}

  size_t size() const override { return size_; }
  SampleShape shape() const override { return whole_->shape(); }
  void Read(size_t index, std::span<float> pixels, int32_t* label) const override {
    whole_->Read(index, pixels, label);
  }

 private:
  const std::shared_ptr<const Dataset> whole_;
  const size_t size_;
};

class PrefixPictures final : public PictureDataset {
 public:
  // REQUIRES: size <= whole->size().
  PrefixPictures(std::shared_ptr<const PictureDataset> whole, size_t size)
      : whole_(std::move(whole)), size_(size) {}

  size_t size() const override { return size_; }
  SampleShape shape() const override { return whole_->shape(); }
  absl::Status Read(const SampleKey& key, std::span<float> pixels,
                    std::span<int32_t> labels) const override {
    return whole_->Read(key, pixels, labels);
  }

 private:
  const std::shared_ptr<const PictureDataset> whole_;
  const size_t size_;
};

class PrefixTokens final : public TokenDataset {
 public:
  // REQUIRES: size <= whole->size().
  PrefixTokens(std::shared_ptr<const TokenDataset> whole, size_t size)
      : whole_(std::move(whole)), size_(size) {}

  size_t size() const override { return size_; }
  SampleShape shape() const override { return whole_->shape(); }
  absl::Status Read(size_t index, std::span<int32_t> tokens,
                    std::span<int32_t> labels) const override {
    return whole_->Read(index, tokens, labels);
  }

 private:
  const std::shared_ptr<const TokenDataset> whole_;
  const size_t size_;
};

class PrefixSparse final : public SparseDataset {
 public:
  // REQUIRES: size <= whole->size().
  PrefixSparse(std::shared_ptr<const SparseDataset> whole, size_t size)
      : whole_(std::move(whole)), size_(size) {}

  size_t size() const override { return size_; }
  SampleShape shape() const override { return whole_->shape(); }
  void Read(const SampleKey& key, std::span<int32_t> indices, std::span<float> values,
            int32_t* label) const override {
    whole_->Read(key, indices, values, label);
  }

 private:
  const std::shared_ptr<const SparseDataset> whole_;
  const size_t size_;
};

}  // namespace psgd
