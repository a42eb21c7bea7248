// Random configs that the schema allows, drawn by reflection: a new key is covered without a word
// here.
#pragma once

#include <random>
#include <string>

#include "proto/config.pb.h"

namespace psgd {

Config RandomConfig(std::mt19937_64* random);

}  // namespace psgd
