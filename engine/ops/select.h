// Chooses element by element:
//   y = a where c > 0, b where c <= 0, and a + b where c is NaN
// So NaN passes a maximum, which chooses by a difference. Gradients are Select too:
//   da = Select(c, dy, 0), db = Select(c, 0, dy); c has none.
// What is not chosen leaves no trace in y, also if it is infinite or NaN. Its gradient is 0. The
// ops before it may multiply this 0 by infinity or NaN, which is NaN, in PyTorch, too.
//   c, a, b, y: any one shape, in c's layout
#pragma once

#include <optional>

#include "common/host_device.h"

namespace psgd {

// c, a, b -> y. A number in place of a tensor is no input.
struct Select {
  std::optional<float> a = {}, b = {};

  // Places among the inputs, of what is no number.
  int place_of_a() const { return 1; }
  int place_of_b() const { return a ? 1 : 2; }
};

template <typename T>
PS_HD T Selected(T condition, T a, T b) {
  if (condition > 0) return a;
  return condition <= 0 ? b : a + b;
}

}  // namespace psgd
