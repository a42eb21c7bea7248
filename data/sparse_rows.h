// Sparse vectors in memory, row after row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "data/dataset.h"
#include "data/row_targets.h"

namespace psgd {

struct SparseEntry {
  int32_t index = 0;
  float value = 0;
};

// One line of a file.
struct SparseRow {
  double label = 0;  // as in the file: a class or a number
  std::vector<SparseEntry> entries;
};

struct SparseRows {
  std::vector<uint64_t> starts = {0};  // start of each row in `entries`, and the end of the last
  std::vector<SparseEntry> entries;
  std::vector<double> labels;

  size_t size() const { return labels.size(); }
  void Add(const SparseRow& row);
  // The largest number of entries in a row, and the largest index plus one; 0 if there are none.
  int64_t widest() const;
  int64_t features() const;
};

// The rows from `begin` to `end` as samples. REQUIRES: `targets` has every row; the shape fits
// every row.
std::shared_ptr<const Dataset> SparseSamples(std::shared_ptr<const SparseRows> rows,
                                             std::shared_ptr<const RowTargets> targets,
                                             size_t begin, size_t end, const SampleShape& shape);

}  // namespace psgd
