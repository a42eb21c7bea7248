// The rules of a config's data section that concern sequences of tokens.
#pragma once

#include <string>
#include <vector>

#include "proto/config.pb.h"

namespace psgd {

// Appends a sentence for each rule that is broken, as ValidateConfig does.
void CheckSequenceKeys(const DataConfig& data, std::vector<std::string>* problems);

}  // namespace psgd
