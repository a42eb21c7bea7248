// What a network is built for.
#pragma once

namespace psgd {

// One sample and what it may be.
struct InputShape {
  int channels = 0;
  int height = 0;
  int width = 0;
  int classes = 0;
};

}  // namespace psgd
