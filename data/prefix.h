// The first samples of another dataset. Thread-safe, as every dataset.
#pragma once

#include <memory>
#include <utility>

#include "data/dataset.h"

namespace psgd {

class Prefix final : public Dataset {
 public:
  // REQUIRES: size <= whole->size().
  Prefix(std::shared_ptr<const Dataset> whole, size_t size)
      : whole_(std::move(whole)), size_(size) {}

  size_t size() const override { return size_; }
  SampleShape shape() const override { return whole_->shape(); }
  absl::Status Read(const SampleKey& key, const Sample& sample) const override {
    return whole_->Read(key, sample);
  }

 private:
  const std::shared_ptr<const Dataset> whole_;
  const size_t size_;
};

}  // namespace psgd
