// How many tokens of each row come before its first padding token, of those from 0 to places - 1:
// what the masks of softmax.h are told of sequences of tokens.
//   x: N L, int32    y: N, int32, from 0 to places
#pragma once

#include <algorithm>
#include <cstdint>

namespace psgd {

// x -> y
struct Lengths {
  int64_t places = 0;
  int32_t padding = 0;

  int32_t Of(const int32_t* row) const {
    return static_cast<int32_t>(std::find(row, row + places, padding) - row);
  }
};

}  // namespace psgd
