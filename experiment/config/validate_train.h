// Checks of the keys that say how training goes: train, data.micro_batch, optimizer.groups,
// durability.keep_best.
#pragma once

#include <string>
#include <vector>

#include "proto/config.pb.h"

namespace psgd {

// Appends what is wrong to `problems`. `config` is resolved.
void CheckTrain(const Config& config, std::vector<std::string>* problems);

}  // namespace psgd
