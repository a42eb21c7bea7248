// What the keys of compression must agree on.
#pragma once

#include <string>
#include <vector>

#include "proto/config.pb.h"

namespace psgd {

// Appends a sentence for each problem.
void CheckCompressionKeys(const CompressionConfig& compression, std::vector<std::string>* problems);

// The same, of every codec that is named: its options, and what it asks of the optimizer and of
// error feedback. REQUIRES: the other keys are sound.
void CheckCodecs(const Config& config, std::vector<std::string>* problems);

}  // namespace psgd
