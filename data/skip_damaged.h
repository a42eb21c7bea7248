// Training on the sound samples of a damaged dataset.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "data/dataset.h"

namespace psgd {

// Counts reads of damaged samples and keeps the last problem. Thread-safe.
class DamageCount {
 public:
  void Add(absl::string_view problem);
  uint64_t count() const;
  std::string last() const;

 private:
  mutable std::mutex mutex_;
  uint64_t count_ = 0;  // guarded by mutex_, like last_
  std::string last_;
};

// Wraps another dataset. Damaged samples become black pictures that are not counted (label -1), or,
// if `damage` is null, are errors that say how to skip them.
// Batches keep their size and samples their numbers, whichever worker reads the damage. Other
// errors stay errors. Thread-safe, as every Dataset.
class SkipDamaged final : public Dataset {
 public:
  SkipDamaged(std::shared_ptr<const Dataset> whole, std::shared_ptr<DamageCount> damage);

  size_t size() const override { return whole_->size(); }
  SampleShape shape() const override { return whole_->shape(); }
  absl::Status Read(const SampleKey& key, const Sample& sample) const override;

 private:
  const std::shared_ptr<const Dataset> whole_;
  const std::shared_ptr<DamageCount> damage_;
};

}  // namespace psgd
