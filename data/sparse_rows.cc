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

absl::Status SparseRowsDataset::Read(const SampleKey& key, const Sample& sample) const {
  const size_t row = begin_ + key.index;
  const size_t start = rows_->starts[row], count = rows_->starts[row + 1] - start;
  for (size_t i = 0; i < count; ++i) {
    sample.tokens[i] = rows_->entries[start + i].index;
    sample.values[i] = rows_->entries[start + i].value;
  }
  std::ranges::fill(sample.tokens.subspan(count), 0);
  std::ranges::fill(sample.values.subspan(count), 0.0f);
  sample.labels[0] = labels_[key.index];
  return absl::OkStatus();
}

}  // namespace psgd
