// Values of random search.
#pragma once

#include <cstdint>
#include <string>

#include "proto/sweep.pb.h"

namespace psgd {

// The value of draw number `index`: a function of the seed, the key and the number, so that more
// draws, or another key beside it, change none of those before. A whole number for a key that takes
// only those.
std::string DrawValue(const SweepDraw& draw, uint64_t seed, int index);

}  // namespace psgd
