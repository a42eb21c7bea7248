// Tensors and sums that the tests of codecs share.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "common/philox.h"
#include "compression/codec.h"

namespace psgd {

inline SliceShape ShapeOf(size_t elements) {
  SliceShape shape;
  shape.elements = static_cast<uint32_t>(elements);
  return shape;
}

// A whole matrix.
inline SliceShape MatrixShape(size_t rows, size_t columns) {
  SliceShape shape = ShapeOf(rows * columns);
  shape.tensor_rows = rows;
  shape.tensor_columns = columns;
  return shape;
}

// Roughly Gaussian.
inline std::vector<float> Gaussian(size_t count, uint64_t stream) {
  RandomStream random(MakeKey(1, RandomPurpose::kSynthetic), stream);
  std::vector<float> values(count);
  for (float& v : values) {
    v = -6;
    for (int i = 0; i < 12; ++i) v += random.NextUnit();
  }
  return values;
}

inline double SquaredNorm(std::span<const float> values) {
  double sum = 0;
  for (float v : values) sum += static_cast<double>(v) * v;
  return sum;
}

inline std::vector<float> Decoded(const Codec& codec, const std::vector<std::byte>& payload,
                                  const SliceShape& shape) {
  std::vector<float> values(shape.elements);
  codec.Open(payload, shape).value()->AddBlock(1, values);
  return values;
}

}  // namespace psgd
