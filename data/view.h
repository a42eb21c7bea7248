// Which part of a picture a sample shows.
#pragma once

#include <cstdint>

#include "common/philox.h"
#include "data/dataset.h"
#include "proto/config.pb.h"

namespace psgd {

// A rectangle in pixels of the picture, within it.
struct Window {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
};

struct View {
  Window window;
  bool mirrored = false;  // left and right
};

// Thread-safe: immutable.
class Viewer {
 public:
  // The whole of the shorter side is `resize` pixels of the result, which is the square of `size`
  // pixels in the middle. What every test sample shows.
  static Viewer Centred(const ImagesConfig& images);
  // As the config augments: a random part (resized_crop) or else the centre, mirrored (flip) or
  // not. Depends on the seed, the epoch and the sample alone.
  static Viewer Augmented(const ImagesConfig& images, const AugmentConfig& augment, uint64_t seed);

  // Of a picture of that size. REQUIRES: both sides are at least 1.
  View Choose(const SampleKey& key, int width, int height) const;

 private:
  Viewer() = default;
  Window Centre(int width, int height) const;
  Window RandomPart(RandomStream* random, int width, int height) const;

  double zoom_ = 1;  // how many times the side of the result the shorter side is
  bool random_part_ = false;
  bool flip_ = false;
  double least_area_ = 1;
  double most_ratio_ = 1;
  PhiloxKey random_;
};

}  // namespace psgd
