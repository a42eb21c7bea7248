// Draws random valid configs by reflection, so that new keys are covered automatically.
#pragma once

#include <random>
#include <string>

#include "proto/config.pb.h"

namespace psgd {

Config RandomConfig(std::mt19937_64* random);

}  // namespace psgd
