// What every format of sparse vectors is loaded into.
#pragma once

#include <memory>

#include "data/dataset.h"

namespace psgd {

struct SparseSets {
  std::shared_ptr<const SparseDataset> train;
  std::shared_ptr<const SparseDataset> test;
};

}  // namespace psgd
