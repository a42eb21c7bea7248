// Clusters around one random pattern per class: easy to learn, of any size, without files.
#pragma once

#include <memory>
#include <vector>

#include "common/philox.h"
#include "common/status.h"
#include "data/dataset.h"

namespace psgd {

struct SyntheticOptions {
  SampleShape shape;
  size_t samples = 0;
  float noise = 1.0f;
  uint64_t seed = 1;
  bool test = false;  // draws other samples of the same clusters
};

// The pattern c of a class is a grid of kGrid x kGrid cells per channel, each uniform in [-1, 1].
// It is coarse, so that convolution and pooling can see it. Sample i belongs to class i mod
// classes. Its pixels are c + noise * g, mapped linearly into [0, 1]; g has mean 0 and variance 1.
// Two patterns lie about 0.8 * sqrt(elements) apart. So classes overlap, and no classifier is
// perfect, once noise comes near 0.2 * sqrt(elements).
//
// g is the sum of four uniform bytes, scaled. It is close to a normal variable, within 3.46, and
// has the same bits on every machine. Only the patterns are stored. Thread-safe, as every Dataset.
class SyntheticDataset final : public Dataset {
 public:
  static constexpr int kGrid = 4;

  static absl::StatusOr<std::shared_ptr<const Dataset>> Create(const SyntheticOptions& options);

  size_t size() const override { return options_.samples; }
  SampleShape shape() const override { return options_.shape; }
  absl::Status Read(const SampleKey& key, const Sample& sample) const override;

 private:
  explicit SyntheticDataset(const SyntheticOptions& options);

  const SyntheticOptions options_;
  const PhiloxKey noise_key_;
  const float scale_;
  // Patterns mapped into [0, 1]: a row of pixels for each class, channel and row of cells.
  std::vector<float> patterns_;
};

}  // namespace psgd
