// Checks the data section's rules about sequences of tokens.
#pragma once

#include <string>
#include <vector>

#include "proto/config.pb.h"

namespace psgd {

// Appends a sentence for each broken rule, as ValidateConfig does.
void CheckSequenceKeys(const DataConfig& data, std::vector<std::string>* problems);

}  // namespace psgd
