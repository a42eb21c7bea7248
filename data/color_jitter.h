// Random changes of brightness, contrast, saturation and hue.
#pragma once

#include "data/transforms.h"

namespace psgd {

// The strengths. Each factor except hue is drawn from [1 - strength, 1 + strength].
struct ColorJitterOptions {
  float brightness = 0;
  float contrast = 0;
  float saturation = 0;
  float hue = 0;  // a turn of the color circle is drawn from [-hue, hue]; at most 0.5
};

// Applies the changes in this order and cuts each result to [0, 1]. Brightness multiplies pixels,
// contrast moves them from the image's mean gray, saturation moves them from their own gray. Hue is
// that of HSV: the largest and the smallest of a pixel's three values stay. Images of one channel
// have neither saturation nor hue. Thread-safe: immutable.
class ColorJitter final : public Transform {
 public:
  // REQUIRES: one or three channels.
  ColorJitter(const SampleShape& shape, const ColorJitterOptions& options, uint64_t seed);
  void Apply(const SampleKey& key, std::span<float> pixels) const override;

 private:
  const size_t plane_;
  const bool colours_;
  const ColorJitterOptions options_;
  const PhiloxKey random_;
};

}  // namespace psgd
