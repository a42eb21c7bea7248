#include "data/sparse_rows.h"

#include <algorithm>

namespace psgd {

void SparseRows::Add(const SparseRow& row) {
  entries.insert(entries.end(), row.entries.begin(), row.entries.end());
  starts.push_back(entries.size());
  labels.push_back(row.label);
}

int64_t SparseRows::widest() const {
  uint64_t widest = 0;
  for (size_t i = 0; i < size(); ++i) widest = std::max(widest, starts[i + 1] - starts[i]);
  return static_cast<int64_t>(widest);
}

int64_t SparseRows::features() const {
  int64_t features = 0;
  for (const SparseEntry& entry : entries) features = std::max(features, int64_t{entry.index} + 1);
  return features;
}

std::shared_ptr<const Dataset> SparseSamples(std::shared_ptr<const SparseRows> rows,
                                             std::shared_ptr<const RowTargets> targets,
                                             size_t begin, size_t end, const SampleShape& shape) {
  const auto read = [rows, targets, begin](const SampleKey& key, const Sample& sample) {
    const size_t row = begin + key.index;
    const size_t start = rows->starts[row], count = rows->starts[row + 1] - start;
    for (size_t i = 0; i < count; ++i) {
      sample.tokens[i] = rows->entries[start + i].index;
      sample.values[i] = rows->entries[start + i].value;
    }
    std::ranges::fill(sample.tokens.subspan(count), 0);
    std::ranges::fill(sample.values.subspan(count), 0.0f);
    targets->Read(row, sample);
    return absl::OkStatus();
  };
  return std::make_shared<ReadDataset>(end - begin, shape, read);
}

}  // namespace psgd
