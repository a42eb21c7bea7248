#include "data/synthetic.h"

#include <algorithm>

namespace psgd {
namespace {

constexpr uint64_t kPatternSalt = 0, kTrainSalt = 1, kTestSalt = 2;
constexpr float kMostNoise = 1e6f;
constexpr size_t kMostElements = size_t{1} << 24;       // of a sample
constexpr size_t kMostPatternValues = size_t{1} << 26;  // over all classes

// A byte has mean 127.5 and variance (256^2 - 1) / 12; four of them sum to these.
constexpr float kSumMean = 510.0f;
constexpr float kSumDeviation = 147.8016f;
constexpr float kMostDeviations = kSumMean / kSumDeviation;

float NearNormal(uint32_t bits) {
  const uint32_t pairs = (bits & 0x00FF00FFu) + ((bits >> 8) & 0x00FF00FFu);
  const auto sum = static_cast<float>((pairs & 0xFFFFu) + (pairs >> 16));
  return (sum - kSumMean) * (1.0f / kSumDeviation);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> SyntheticDataset::Create(
    const SyntheticOptions& options) {
  const SampleShape& shape = options.shape;
  if (shape.elements() > kMostElements) {
    return InvalidArgumentError("data.synthetic.shape ", shape.ImageText(), " has more than ",
                                kMostElements, " values a sample; make it smaller");
  }
  if (!(options.noise >= 0 && options.noise <= kMostNoise)) {
    return InvalidArgumentError("data.synthetic.noise is ", options.noise,
                                "; it must be from 0 to ", kMostNoise);
  }
  const size_t row = static_cast<size_t>(shape.channels) * kGrid * static_cast<size_t>(shape.width);
  if (static_cast<size_t>(shape.classes) > kMostPatternValues / row) {
    return InvalidArgumentError("data.synthetic: ", shape.classes, " classes of ",
                                shape.ImageText(),
                                " are too many to hold; use fewer classes or smaller samples");
  }
  return std::shared_ptr<const Dataset>(new SyntheticDataset(options));
}

SyntheticDataset::SyntheticDataset(const SyntheticOptions& options)
    : options_(options),
      noise_key_(
          MakeKey(options.seed, RandomPurpose::kSynthetic, options.test ? kTestSalt : kTrainSalt)),
      scale_(0.5f / (1.0f + kMostDeviations * options.noise)) {
  const SampleShape& shape = options_.shape;
  const auto width = static_cast<size_t>(shape.width);
  const size_t rows =
      static_cast<size_t>(shape.classes) * static_cast<size_t>(shape.channels) * kGrid;
  const PhiloxKey key = MakeKey(options.seed, RandomPurpose::kSynthetic, kPatternSalt);
  patterns_.resize(rows * width);
  for (size_t row = 0; row < rows; ++row) {
    static_assert(kGrid == 4, "one Philox block a row of cells");
    const PhiloxBlock cells = Philox(key, row, 0);
    for (size_t x = 0; x < width; ++x) {
      const float cell = 2.0f * UnitFloat(cells.word[x * kGrid / width]) - 1.0f;
      patterns_[row * width + x] = 0.5f + scale_ * cell;
    }
  }
}

absl::Status SyntheticDataset::Read(const SampleKey& key, const Sample& sample) const {
  const SampleShape& shape = options_.shape;
  const size_t group = key.index % static_cast<size_t>(shape.classes);
  sample.labels[0] = static_cast<int32_t>(group);
  const float scale = scale_ * options_.noise;
  float* out = sample.values.data();
  const size_t elements = sample.values.size();
  for (size_t i = 0; i < elements; i += 4) {
    const PhiloxBlock block = Philox(noise_key_, i / 4, key.index);
    const size_t end = std::min<size_t>(4, elements - i);
    for (size_t j = 0; j < end; ++j) out[i + j] = scale * NearNormal(block.word[j]);
  }
  const auto height = static_cast<size_t>(shape.height), width = static_cast<size_t>(shape.width);
  for (size_t channel = 0; channel < static_cast<size_t>(shape.channels); ++channel) {
    const size_t first_row = (group * static_cast<size_t>(shape.channels) + channel) * kGrid;
    for (size_t y = 0; y < height; ++y, out += width) {
      const float* pattern = patterns_.data() + (first_row + y * kGrid / height) * width;
      for (size_t x = 0; x < width; ++x) out[x] += pattern[x];
    }
  }
  return absl::OkStatus();
}

}  // namespace psgd
