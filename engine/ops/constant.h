// Values that are part of the network and that nothing trains: masks, tables of positions, factors.
//   y = values    y: any shape, the values in row-major order
#pragma once

#include <memory>
#include <vector>

namespace psgd {

// -> y
struct Constant {
  std::shared_ptr<const std::vector<float>> values;  // as many as y has elements
};

}  // namespace psgd
