// One step of an UpdateEncoder for a model of a single slice, on the host or a device.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "worker/update_encoder.h"

namespace psgd {

inline EncodedSlice EncodeStep(UpdateEncoder& encoder, const std::vector<float>& gradient,
                               uint64_t clock) {
  std::vector<EncodedSlice> slices;
  if (encoder.on_device()[0]) {
    EXPECT_TRUE(encoder.Start(0, {gradient.data(), gradient.data(), nullptr}, 0, clock).ok());
    EXPECT_TRUE(encoder.Finish(0, &slices).ok());
  } else {
    encoder.Encode(0, gradient, gradient, 0, clock, &slices);
  }
  EXPECT_EQ(slices.size(), 1u);
  return slices.at(0);
}

}  // namespace psgd
