// The two sets that formats of sequences and of sparse vectors load.
#pragma once

#include <memory>

#include "data/dataset.h"

namespace psgd {

template <typename Set>
struct Sets {
  std::shared_ptr<const Set> train;
  std::shared_ptr<const Set> test;
};

using TokenSets = Sets<TokenDataset>;
using SparseSets = Sets<SparseDataset>;

}  // namespace psgd
