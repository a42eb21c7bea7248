// Which dense layers push the factors of their gradient.
#pragma once

#include <cstddef>

#include "engine/runtime/factors.h"
#include "proto/config.pb.h"

namespace psgd {

// The weights for which the config names factors, if the factors of all `parts` of a batch together
// have fewer bytes than the gradient. Null: the config names none.
ChooseFactors FactorLayers(const Config& config, size_t parts);

}  // namespace psgd
