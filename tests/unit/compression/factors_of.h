// Factors of gradients, and their product in plain loops.
#pragma once

#include <vector>

#include "compression/low_rank/factors_payload.h"
#include "tests/unit/compression/tensors.h"

namespace psgd {

// Factors of a tensor of `rows` x `columns`: `batch` rows of x, each followed by a row of delta.
// About half of each are zeros of a relu.
struct FactorsOf {
  FactorsOf(size_t batch, size_t rows, size_t columns, uint64_t stream)
      : batch(batch),
        rows(rows),
        columns(columns),
        values(Gaussian(batch * (rows + columns), stream)) {
    for (float& v : values) v = v < 0 ? 0 : v;
  }

  float x(size_t n, size_t column) const { return values[n * (rows + columns) + column]; }
  float delta(size_t n, size_t row) const { return values[n * (rows + columns) + columns + row]; }
  float Product(size_t row, size_t column) const {
    float sum = 0;
    for (size_t n = 0; n < batch; ++n) sum += delta(n, row) * x(n, column);
    return sum;
  }
  // Returns the product for a slice.
  std::vector<float> Product(const SliceShape& shape) const {
    std::vector<float> product;
    for (uint64_t i = shape.offset; i < shape.offset + shape.elements; ++i) {
      product.push_back(Product(i / columns, i % columns));
    }
    return product;
  }
  // Returns the slices of the tensor, cut at these elements.
  std::vector<SliceShape> Cut(std::vector<size_t> ends) const {
    ends.push_back(rows * columns);
    std::vector<SliceShape> shapes;
    size_t begin = 0;
    for (size_t end : ends) {
      SliceShape& shape = shapes.emplace_back(MatrixShape(rows, columns));
      shape.offset = begin;
      shape.elements = static_cast<uint32_t>(end - begin);
      begin = end;
    }
    return shapes;
  }
  // Returns an empty payload if it would not pay.
  std::vector<std::byte> Payload(const std::vector<SliceShape>& shapes,
                                 ValueCoding coding = ValueCoding::kFloat,
                                 const FactorsDraw& draw = {}) const {
    FactorsEncoder encoder(KernelsFor(CodecBackend::kSimd), coding);
    encoder.Begin(values, batch, columns, draw);
    std::vector<std::byte> payload;
    encoder.Encode(shapes, &payload);
    return payload;
  }

  size_t batch, rows, columns;
  std::vector<float> values;
};

inline std::unique_ptr<Codec> FactorsCodecOf(CodecBackend backend = CodecBackend::kSimd) {
  CodecConfig config;
  config.mutable_factors();
  return MakeCodec(config, {backend}).value();
}

}  // namespace psgd
