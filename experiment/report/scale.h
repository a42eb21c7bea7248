// Maps numbers to positions in a drawing.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace psgd {

using NumberFormat = std::function<std::string(double)>;

// Immutable.
class Scale {
 public:
  // Maps the range of `numbers` to `from` ... `to`, with a small margin. A logarithmic scale
  // ignores numbers that are not above 0. `zero`: the scale begins at 0.
  Scale(const std::vector<double>& numbers, bool logarithmic, bool zero, double from, double to);

  double At(double number) const;
  bool Shows(double number) const { return !logarithmic_ || number > 0; }
  // Round numbers, about `most` of them at most.
  std::vector<double> Ticks(int most) const;

 private:
  bool logarithmic_;
  double low_ = 0;
  double high_ = 1;
  double from_;
  double to_;
};

}  // namespace psgd
