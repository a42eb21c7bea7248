// The part of a picture that a sample shows.
#pragma once

#include <cstdint>

#include "common/philox.h"
#include "data/dataset.h"
#include "proto/config.pb.h"

namespace psgd {

// A rectangle within the picture, in pixels.
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

// Chooses the view of each sample. Thread-safe: immutable.
class Viewer {
 public:
  // Scales the shorter side to `resize` pixels and takes the central square of `size` pixels. Every
  // test sample shows this view.
  static Viewer Centred(const ImagesConfig& images);
  // Takes a random part (resized_crop) or else the center, mirrored (flip) or not, as the config
  // says. The view depends on the seed, the epoch and the sample alone.
  static Viewer Augmented(const ImagesConfig& images, const AugmentConfig& augment, uint64_t seed);

  // Returns the view of a picture of that size. REQUIRES: both sides are at least 1.
  View Choose(const SampleKey& key, int width, int height) const;

 private:
  Viewer() = default;
  Window Centre(int width, int height) const;
  Window RandomPart(RandomStream* random, int width, int height) const;

  double zoom_ = 1;  // the scaled shorter side, divided by the side of the result
  bool random_part_ = false;
  bool flip_ = false;
  double least_area_ = 1;
  double most_ratio_ = 1;
  PhiloxKey random_;
};

}  // namespace psgd
