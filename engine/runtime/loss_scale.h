// The loss scale of training in fp16. It multiplies the gradient of the loss, so that small
// gradients do not vanish in fp16, and divides the gradients of parameters. It is a power of two,
// so that neither rounds (Micikevicius et al., "Mixed precision training", 2018).
#pragma once

namespace psgd {

// Not thread-safe.
class LossScale {
 public:
  static constexpr float kFirst = 65536, kLargest = 1 << 24;
  static constexpr int kStepsToGrow = 2000;

  float value() const { return value_; }

  // Called after a step with finite gradients. kStepsToGrow of them in a row double the scale.
  void Finite() {
    if (++finite_ < kStepsToGrow) return;
    finite_ = 0;
    if (value_ < kLargest) value_ *= 2;
  }
  // Called after a step with a gradient that is not finite. Halves the scale. False: the scale is 1
  // already, so it is not the cause.
  bool Overflowed() {
    finite_ = 0;
    if (value_ <= 1) return false;
    value_ /= 2;
    return true;
  }

 private:
  float value_ = kFirst;
  int finite_ = 0;  // steps since the scale last changed
};

}  // namespace psgd
