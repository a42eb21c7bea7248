// Numbers to places on a drawing.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace psgd {

using NumberFormat = std::function<std::string(double)>;

// Immutable.
class Scale {
 public:
  // From the numbers that are to be seen to the range from `from` to `to`, with a little room. A
  // logarithmic one leaves out what is not above 0. `zero`: begins there.
  Scale(const std::vector<double>& numbers, bool logarithmic, bool zero, double from, double to);

  double At(double number) const;
  bool Shows(double number) const { return !logarithmic_ || number > 0; }
  // Round numbers, at most about so many.
  std::vector<double> Ticks(int most) const;

 private:
  bool logarithmic_;
  double low_ = 0;
  double high_ = 1;
  double from_;
  double to_;
};

}  // namespace psgd
