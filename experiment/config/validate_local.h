// Checks of `local`: steps of a worker's own between two exchanges.
#pragma once

#include <string>
#include <vector>

#include "proto/config.pb.h"

namespace psgd {

// Appends what of `local` does not fit the rest of the config.
void CheckLocal(const Config& config, std::vector<std::string>* problems);

}  // namespace psgd
