// How muon makes the update of a matrix orthogonal, on the host and on devices: Jordan's
// Newton-Schulz iteration, x = a x + (b y + c y y) x with y = x x', on the wide one of x and x'.
// Five rounds bring singular values between 0.01 and 1 close to 1. No Abseil here, because nvcc
// reads this.
#pragma once

#include <cmath>
#include <cstddef>

#include "common/host_device.h"

namespace psgd {

struct NewtonSchulz {
  static constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;
  static constexpr int kRounds = 5;

  // What x is multiplied by first, from its sum of squares, so that no singular value is above 1.
  PS_HD static float Scale(double squares) {
    return static_cast<float>(1 / (sqrt(squares) + 1e-7));
  }
  // Floats of a device's scratch memory: for y, its polynomial, and another x.
  static size_t ScratchFloats(size_t rows, size_t columns) {
    const size_t shorter = rows < columns ? rows : columns;
    return 2 * shorter * shorter + rows * columns;
  }
};

}  // namespace psgd
