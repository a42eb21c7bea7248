// Checks that the keys of the data section agree.
#pragma once

#include <string>
#include <vector>

#include "proto/config.pb.h"

namespace psgd {

// Each appends a sentence for each problem, with its remedy: of image formats, and of sequences of
// tokens.
void CheckImageKeys(const DataConfig& data, std::vector<std::string>* problems);
void CheckSequenceKeys(const DataConfig& data, std::vector<std::string>* problems);

}  // namespace psgd
