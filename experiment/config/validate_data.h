// Checks that the keys of the data section agree.
#pragma once

#include <string>
#include <vector>

#include "proto/config.pb.h"

namespace psgd {

// Each appends a sentence for each problem, with its remedy: of image formats, of sequences of
// tokens, and of rows and their targets.
void CheckImageKeys(const DataConfig& data, std::vector<std::string>* problems);
void CheckSequenceKeys(const DataConfig& data, std::vector<std::string>* problems);
void CheckTargetKeys(const Config& config, std::vector<std::string>* problems);

}  // namespace psgd
