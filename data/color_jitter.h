// Random changes of brightness, contrast, saturation and hue.
#pragma once

#include "data/transforms.h"

namespace psgd {

// The strengths: a factor is drawn from [1 - strength, 1 + strength] for each but hue.
struct ColorJitterOptions {
  float brightness = 0;
  float contrast = 0;
  float saturation = 0;
  float hue = 0;  // a turn of the colour circle is drawn from [-hue, hue]; at most 0.5
};

// In this order, each result cut to [0, 1]: brightness multiplies pixels, contrast moves them from
// the mean grey of the image, saturation from their own grey. Hue is that of
// HSV: the largest and the smallest of a pixel's three values stay. Images of one channel have
// neither saturation nor hue.
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
