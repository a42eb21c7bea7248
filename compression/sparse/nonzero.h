// Gradients that are mostly zero, such as those of an embedding's table. Only the other entries are
// sent, in the wire format of topk.h. Nothing is lost, so there is no residual.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compression/sparse/sparse_layout.h"

namespace psgd {

// A matrix of which all other rows are zero.
struct SparseRows {
  std::span<const int64_t> rows;  // strictly ascending
  size_t columns = 1;
  std::span<const float> values;  // row by row
};

// Encodes one gradient after another. Not thread-safe.
class NonzeroEncoder {
 public:
  // Appends the payload. If sending all elements takes no more room, appends nothing and returns
  // false. Binary16 coding rounds the values. REQUIRES: `coding` is not kSign; for kByte, values
  // are whole numbers from -127 to 127.
  bool Encode(std::span<const float> gradient, std::vector<std::byte>* out,
              ValueCoding coding = ValueCoding::kFloat);
  // The same of `count` elements of a matrix from element `begin` on, in time for its rows alone.
  bool Encode(const SparseRows& matrix, size_t begin, size_t count, std::vector<std::byte>* out);

 private:
  // Buffers, kept from step to step only to spare allocations.
  std::vector<uint32_t> indices_;
  std::vector<float> values_;
};

}  // namespace psgd
