#include "data/sparse_rows.h"

#include <algorithm>
#include <utility>

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

SparseRowsDataset::SparseRowsDataset(std::shared_ptr<const SparseRows> rows, size_t begin,
                                     size_t end, const SampleShape& shape,
                                     const std::vector<double>& classes)
    : rows_(std::move(rows)), begin_(begin), shape_(shape) {
  labels_.reserve(end - begin);
  for (size_t i = begin; i < end; ++i) {
    const auto at = std::lower_bound(classes.begin(), classes.end(), rows_->labels[i]);
    labels_.push_back(static_cast<int32_t>(at - classes.begin()));
  }
}

void SparseRowsDataset::Read(const SampleKey& key, std::span<int32_t> indices,
                             std::span<float> values, int32_t* label) const {
  const size_t row = begin_ + key.index;
  const size_t start = rows_->starts[row], count = rows_->starts[row + 1] - start;
  for (size_t i = 0; i < count; ++i) {
    indices[i] = rows_->entries[start + i].index;
    values[i] = rows_->entries[start + i].value;
  }
  std::fill(indices.begin() + static_cast<ptrdiff_t>(count), indices.end(), 0);
  std::fill(values.begin() + static_cast<ptrdiff_t>(count), values.end(), 0.0f);
  *label = labels_[key.index];
}

}  // namespace psgd
