// Nearest-neighbor upsampling by a whole factor f:
//   y[n,c,i,j] = x[n,c,floor(i/f),floor(j/f)]    dx[n,c,i,j] = sum of dy over the f x f copies
//   x: N C H W    y: N C fH fW
#pragma once

namespace psgd {

// x -> y
struct Upsample {
  int factor = 2;
};

// dy -> dx
struct UpsampleBackward {
  Upsample forward;
};

}  // namespace psgd
