// The sequence formats of OpenData.
#pragma once

#include "common/status.h"
#include "data/sets.h"
#include "proto/config.pb.h"

namespace psgd {

bool IsSequenceFormat(DataConfig::Format format);

// REQUIRES: IsSequenceFormat(config.format()).
absl::StatusOr<TokenSets> OpenSequences(const DataConfig& config);

}  // namespace psgd
