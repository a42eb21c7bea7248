#include "data/normalization.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace psgd {
namespace {

// Independent sums, so that the loop runs on vectors without reassociation.
constexpr size_t kLanes = 8;

struct Sums {
  std::array<double, kLanes> value{};
  std::array<double, kLanes> square{};

  void Add(std::span<const float> plane) {
    size_t i = 0;
    for (; i + kLanes <= plane.size(); i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) AddOne(plane[i + lane], lane);
    }
    for (; i < plane.size(); ++i) AddOne(plane[i], i % kLanes);
  }
  void AddOne(double x, size_t lane) {
    value[lane] += x;
    square[lane] += x * x;
  }
};

double Total(const std::array<double, kLanes>& lanes) {
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

}  // namespace

absl::StatusOr<Normalization> MeasureNormalization(const Dataset& dataset) {
  const SampleShape shape = dataset.shape();
  const auto channels = static_cast<size_t>(shape.channels);
  const size_t plane = shape.elements() / channels;
  const size_t measured = std::min(dataset.size(), kMeasuredSamples);
  std::vector<float> pixels(shape.elements());
  std::vector<Sums> sums(channels);
  int32_t label;
  for (size_t i = 0; i < measured; ++i) {
    // In double: exact for far more samples than there can be, and without overflow.
    const double share = static_cast<double>(i) / static_cast<double>(measured);
    const size_t index = measured == dataset.size()
                             ? i
                             : static_cast<size_t>(share * static_cast<double>(dataset.size()));
    PSGD_RETURN_IF_ERROR(dataset.Read({0, index}, {.values = pixels, .labels = {&label, 1}}));
    for (size_t channel = 0; channel < channels; ++channel) {
      sums[channel].Add(std::span(pixels).subspan(channel * plane, plane));
    }
  }
  Normalization result;
  const double count = static_cast<double>(measured) * static_cast<double>(plane);
  for (const Sums& sum : sums) {
    const double mean = Total(sum.value) / count;
    const double variance = Total(sum.square) / count - mean * mean;
    result.mean.push_back(static_cast<float>(mean));
    // Below this, the variance is only rounding error.
    result.stddev.push_back(variance > 1e-10 ? static_cast<float>(std::sqrt(variance)) : 1.0f);
  }
  return result;
}

absl::StatusOr<Normalization> ChooseNormalization(const DataConfig& config, const Dataset& train) {
  if (config.mean().empty() && config.stddev().empty()) return MeasureNormalization(train);
  return GivenNormalization(config, train.shape().channels);
}

absl::StatusOr<Normalization> GivenNormalization(const DataConfig& config, int channels) {
  if (config.mean_size() != channels || config.stddev_size() != channels) {
    return InvalidArgumentError(
        "data.mean has ", config.mean_size(), " values and data.stddev has ", config.stddev_size(),
        ", but samples have ", channels, channels == 1 ? " channel" : " channels",
        "; give one of each a channel, or neither: they are then measured");
  }
  Normalization result{{config.mean().begin(), config.mean().end()},
                       {config.stddev().begin(), config.stddev().end()}};
  for (int i = 0; i < channels; ++i) {
    if (!std::isfinite(config.mean(i)) || !std::isnormal(config.stddev(i)) ||
        config.stddev(i) < 0) {
      return InvalidArgumentError("data.mean ", config.mean(i), " and data.stddev ",
                                  config.stddev(i), " of channel ", i,
                                  " must be finite, the latter above 0");
    }
  }
  return result;
}

}  // namespace psgd
