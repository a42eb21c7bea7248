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

absl::Status SparseRowsDataset::Read(const SampleKey& key, const Sample& sample) const {
  const size_t row = begin_ + key.index;
  const size_t start = rows_->starts[row], count = rows_->starts[row + 1] - start;
  for (size_t i = 0; i < count; ++i) {
    sample.tokens[i] = rows_->entries[start + i].index;
    sample.values[i] = rows_->entries[start + i].value;
  }
  std::ranges::fill(sample.tokens.subspan(count), 0);
  std::ranges::fill(sample.values.subspan(count), 0.0f);
  targets_->Read(row, sample);
  return absl::OkStatus();
}

}  // namespace psgd
