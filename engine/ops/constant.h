// Untrained values of the network: masks, tables of positions, factors.
//   y = values    y: any shape, in row-major order
#pragma once

#include <memory>
#include <vector>

namespace psgd {

// -> y
struct Constant {
  std::shared_ptr<const std::vector<float>> values;  // one for each element of y
};

}  // namespace psgd
