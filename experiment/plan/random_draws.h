// Values for random search.
#pragma once

#include <cstdint>
#include <string>

#include "proto/sweep.pb.h"

namespace psgd {

// The value of draw number `index`. It depends only on the seed, the key and the index, so more
// draws or more keys do not change earlier draws. Keys of whole numbers get a whole number.
std::string DrawValue(const SweepDraw& draw, uint64_t seed, int index);

}  // namespace psgd
