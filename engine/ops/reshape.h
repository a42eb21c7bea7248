// The same elements in row-major order under another shape; its gradient is a Reshape back.
#pragma once

namespace psgd {

// x -> y
struct Reshape {};

}  // namespace psgd
