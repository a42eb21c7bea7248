// Checks that the keys of compression agree.
#pragma once

#include <string>
#include <vector>

#include "proto/config.pb.h"

namespace psgd {

// Appends a sentence for each problem.
void CheckCompressionKeys(const CompressionConfig& compression, std::vector<std::string>* problems);

// Does the same for every codec that is named: its options, and its demands on the optimizer and on
// error feedback. REQUIRES: the other keys are valid.
void CheckCodecs(const Config& config, std::vector<std::string>* problems);

}  // namespace psgd
