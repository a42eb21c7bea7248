// Counts the tokens of each row before its first padding token, among tokens 0 to places - 1. The
// masks of softmax.h use these lengths.
//   x: N L, int32    y: N, int32, from 0 to places
#pragma once

#include <cstdint>

namespace psgd {

// x -> y
struct Lengths {
  int64_t places = 0;
  int32_t padding = 0;

  constexpr int32_t Of(const int32_t* row) const {
    int32_t length = 0;
    while (length < places && row[length] != padding) ++length;
    return length;
  }
};

}  // namespace psgd
