#include "compression/sparse/nonzero.h"

#include <algorithm>

#include "compression/sparse/sparse_payload.h"

namespace psgd {
namespace {
// Indices take less than two bits for each element of the slice, so entries are shorter up to here.
double MostDensity(ValueCoding coding) {
  return coding == ValueCoding::kByte ? 0.75 : coding == ValueCoding::kHalf ? 0.85 : 0.9;
}
}  // namespace

bool NonzeroEncoder::Encode(std::span<const float> gradient, std::vector<std::byte>* out,
                            ValueCoding coding) {
  const auto most = static_cast<size_t>(MostDensity(coding) * static_cast<double>(gradient.size()));
  indices_.clear();
  values_.clear();
  for (size_t i = 0; i < gradient.size(); ++i) {
    if (gradient[i] == 0) continue;
    if (indices_.size() == most) return false;
    indices_.push_back(static_cast<uint32_t>(i));
    values_.push_back(gradient[i]);
  }
  WriteSparse({indices_, values_, gradient.size()}, coding, -1, KernelsFor(CodecBackend::kSimd),
              out);
  return true;
}

bool NonzeroEncoder::Encode(const SparseRows& matrix, size_t begin, size_t count,
                            std::vector<std::byte>* out) {
  const auto most =
      static_cast<size_t>(MostDensity(ValueCoding::kFloat) * static_cast<double>(count));
  const auto first =
      std::ranges::lower_bound(matrix.rows, static_cast<int64_t>(begin / matrix.columns));
  indices_.clear();
  values_.clear();
  for (auto i = static_cast<size_t>(first - matrix.rows.begin()); i < matrix.rows.size(); ++i) {
    const size_t row = static_cast<size_t>(matrix.rows[i]) * matrix.columns;
    if (row >= begin + count) break;
    const size_t from = std::max(row, begin);
    const size_t to = std::min(row + matrix.columns, begin + count);
    for (size_t at = from; at < to; ++at) {
      const float value = matrix.values[i * matrix.columns + (at - row)];
      if (value == 0) continue;
      if (indices_.size() == most) return false;
      indices_.push_back(static_cast<uint32_t>(at - begin));
      values_.push_back(value);
    }
  }
  WriteSparse({indices_, values_, count}, ValueCoding::kFloat, -1, KernelsFor(CodecBackend::kSimd),
              out);
  return true;
}

}  // namespace psgd
