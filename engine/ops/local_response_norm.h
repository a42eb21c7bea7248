// Local response normalization across channels (Krizhevsky et al., 2012), scaled as in PyTorch:
//   s[n,c,i,j] = k + alpha / size * sum of x[n,c',i,j]^2 over |c' - c| <= (size - 1) / 2
//   y = x s^-beta
//   dx[c] = dy[c] s[c]^-beta - 2 alpha beta / size x[c] * sum over the same c' of (dy y / s)[c']
// The size is odd, because frameworks disagree on where an even window lies.
//   x, y: N C H W
#pragma once

namespace psgd {

// x -> y, scale (opaque)
struct LocalResponseNorm {
  int size = 5;
  float alpha = 1e-4f;
  float beta = 0.75f;
  float k = 1.0f;
};

// x, scale, dy -> dx
struct LocalResponseNormBackward {
  LocalResponseNorm forward;
};

}  // namespace psgd
