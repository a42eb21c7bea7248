// The loss scale of training in fp16: the gradient of the loss is multiplied by it, so that small
// gradients do not vanish in fp16, and the gradients of parameters are divided by it. Powers of
// two, so that neither rounds (Micikevicius et al., "Mixed precision training", 2018).
#pragma once

namespace psgd {

// Not thread-safe.
class LossScale {
 public:
  static constexpr float kFirst = 65536, kLargest = 1 << 24;
  static constexpr int kStepsToGrow = 2000;

  float value() const { return value_; }

  // A step's gradients were all finite. Doubles the scale after so many of them in a row.
  void Finite() {
    if (++finite_ < kStepsToGrow) return;
    finite_ = 0;
    if (value_ < kLargest) value_ *= 2;
  }
  // They were not. Halves the scale; false if it is 1 already, and not what is to blame.
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
