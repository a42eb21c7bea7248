// The sparse formats of OpenData.
#pragma once

#include <cstdint>
#include <memory>

#include "common/status.h"
#include "data/dataset.h"
#include "proto/config.pb.h"

namespace psgd {

struct SparseSets {
  std::shared_ptr<const SparseDataset> train;
  std::shared_ptr<const SparseDataset> test;
};

bool IsSparseFormat(DataConfig::Format format);

// REQUIRES: IsSparseFormat(config.format()).
absl::StatusOr<SparseSets> OpenSparse(const DataConfig& config, uint64_t seed);

}  // namespace psgd
