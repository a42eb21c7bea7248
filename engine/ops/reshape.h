// The same elements in row-major order with another shape. The gradient is a Reshape back.
#pragma once

namespace psgd {

// x -> y
struct Reshape {};

}  // namespace psgd
