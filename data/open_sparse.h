// The sparse formats of OpenData.
#pragma once

#include <cstdint>

#include "common/status.h"
#include "data/sets.h"
#include "proto/config.pb.h"

namespace psgd {

bool IsSparseFormat(DataConfig::Format format);

// REQUIRES: IsSparseFormat(config.format()).
absl::StatusOr<SparseSets> OpenSparse(const DataConfig& config, uint64_t seed);

}  // namespace psgd
