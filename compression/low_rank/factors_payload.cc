#include "compression/low_rank/factors_payload.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "compression/coarse.h"
#include "compression/dense/quantized.h"
#include "compression/low_rank/factors.h"
#include "compression/low_rank/matrix_view.h"
#include "compression/low_rank/powersgd_payload.h"
#include "compression/payload_bytes.h"
#include "compression/sparse/sparse_payload.h"

namespace psgd {
namespace {

constexpr size_t kHeaderBytes = 12;
constexpr size_t kValueCodingAt = 6;  // in a matrix; see sparse_payload.h
constexpr float kMostLevel = 127;
constexpr int kMostShift = 126;  // 2 to this power, and its inverse, are floats

// Both matrices of one payload.
struct Factors {
  uint64_t batch = 0;  // without the samples that add nothing
  uint64_t columns = 0;
  std::vector<float> left;   // D
  std::vector<float> right;  // X
  float largest = 0;         // of the product
};

// Number of rows of D that are sent for these slices: the rows that each slice touches.
uint64_t RowsOf(std::span<const SliceShape> shapes) {
  uint64_t rows = 0;
  for (const SliceShape& shape : shapes) rows += MatrixView(shape).rows;
  return rows;
}

bool Pays(uint64_t batch, std::span<const SliceShape> shapes) {
  uint64_t elements = 0;
  for (const SliceShape& shape : shapes) elements += shape.elements;
  const uint64_t most = std::min(kMostFactorFloats + 1, elements);
  const uint64_t columns = shapes.empty() ? 0 : shapes[0].tensor_columns;
  const uint64_t each = columns + RowsOf(shapes);
  return columns > 0 && most > 0 && batch <= (most - 1) / each;
}

// One slice's part of the product. Rows are computed a few at a time, on demand.
class ProductReader final : public PayloadReader {
 public:
  ProductReader(std::shared_ptr<const Factors> factors, const float* left, const SliceShape& shape,
                const CodecKernels& kernels)
      : PayloadReader(shape.elements),
        factors_(std::move(factors)),
        left_(left),
        view_(shape),
        kernels_(kernels) {}

  bool without_decay() const override { return true; }
  float Largest() const override { return factors_->largest; }

  void AddBlock(float scale, std::span<float> block) override {
    if (factors_->batch == 0) return;
    view_.ForRows(
        position_, block.size(), [&](uint64_t row, uint64_t column, size_t begin, size_t count) {
          while (count > 0) {
            const std::span<const float> product = Product(row, column);
            const size_t part = std::min(count, product.size());
            kernels_.dense.add_scaled(scale, reinterpret_cast<const std::byte*>(product.data()),
                                      block.subspan(begin, part));
            column += part;
            begin += part;
            count -= part;
          }
        });
    position_ += block.size();
    // Other slices of the tensor may stay open long after this one was read.
    if (position_ == elements()) {
      std::vector<float>().swap(tile_);
      rows_ = 0;
    }
  }

 private:
  // A tile of the product stays in the second-level cache until its last row was read.
  static constexpr uint64_t kTileRows = 4;
  static constexpr uint64_t kTileColumns = kMostTileFloats / kTileRows;

  // Returns that row, from that column on, as far as the tile goes.
  std::span<const float> Product(uint64_t row, uint64_t column) {
    const bool there = row - first_row_ < rows_ && column - first_column_ < columns_;
    if (!there) Compute(row, column);
    const std::span<const float> line =
        std::span<const float>(tile_).subspan((row - first_row_) * columns_, columns_);
    return line.subspan(column - first_column_);
  }

  void Compute(uint64_t row, uint64_t column) {
    const bool whole = view_.columns <= kTileColumns;
    first_row_ = row;
    first_column_ = whole ? 0 : column;
    rows_ = whole ? std::min(kTileRows, view_.rows - row) : 1;
    columns_ = std::min(kTileColumns, view_.columns - first_column_);
    tile_.resize(rows_ * columns_);
    kernels_.low_rank.multiply(left_ + row * factors_->batch, rows_, factors_->batch,
                               factors_->right.data() + first_column_, view_.columns, columns_,
                               tile_.data());
  }

  const std::shared_ptr<const Factors> factors_;
  const float* const left_;  // the slice's rows of D
  const MatrixView view_;
  const CodecKernels& kernels_;
  size_t position_ = 0;
  std::vector<float> tile_;
  uint64_t first_row_ = 0, rows_ = 0, first_column_ = 0, columns_ = 0;
};

// Reads the units of the samples, which follow the entries of a matrix of bytes.
absl::StatusOr<std::vector<float>> ReadUnits(ByteSpan bytes) {
  std::vector<float> units;
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint16_t)) {
    units.push_back(FromCoarseBits(LoadField<uint16_t>(bytes.data() + at)));
    if (!std::isfinite(units.back())) {
      return absl::OutOfRangeError("factors payload holds NaN or infinity");
    }
    if (std::signbit(units.back())) return absl::InvalidArgumentError("factors unit is negative");
  }
  return units;
}

// Value i belongs to sample i / each % batch.
absl::StatusOr<std::vector<float>> ReadMatrix(ByteSpan bytes, uint64_t count, int shift,
                                              uint64_t batch, uint64_t each,
                                              const CodecKernels& kernels) {
  if (std::abs(shift) > kMostShift) {
    return InvalidArgumentError("factors payload with a matrix that was multiplied by 2^", shift);
  }
  const bool in_units = bytes.size() >= kSparseHeaderBytes &&
                        LoadField<ValueCoding>(bytes.data() + kValueCodingAt) == ValueCoding::kByte;
  const size_t unit_bytes = in_units ? batch * sizeof(uint16_t) : 0;
  if (bytes.size() < unit_bytes) {
    return absl::InvalidArgumentError("factors payload ends within its units");
  }
  const ByteSpan entries = bytes.first(bytes.size() - unit_bytes);
  PSGD_ASSIGN_OR_RETURN(const std::vector<float> units, ReadUnits(bytes.subspan(entries.size())));
  PSGD_ASSIGN_OR_RETURN(const auto reader, OpenSparse(entries, static_cast<uint32_t>(count),
                                                      "factors", kernels, ValueCoding::kByte));
  std::vector<float> matrix(count);
  reader->AddBlock(std::ldexp(1.0f, -shift), matrix);
  for (uint64_t i = 0; !units.empty() && i < count; ++i) matrix[i] *= units[i / each % batch];
  return matrix;
}

// Leaves out the samples whose inputs, or gradients of all outputs, are zeros. A payload of some
// tens of bytes may stand for a thousand of them, and each costs a multiplication for every
// element. A sum that begins as +0 never becomes -0, so without their +0 and -0 it has the same
// bits.
void LeaveOutZeros(Factors* factors) {
  const uint64_t batch = factors->batch, columns = factors->columns;
  std::vector<uint8_t> in_left(batch);
  for (size_t row = 0; row < factors->left.size(); row += batch) {
    for (uint64_t n = 0; n < batch; ++n) {
      in_left[n] |= static_cast<uint8_t>(factors->left[row + n] != 0);
    }
  }
  std::vector<uint64_t> kept;
  for (uint64_t n = 0; n < batch; ++n) {
    const std::span<const float> inputs(factors->right.data() + n * columns, columns);
    if (in_left[n] != 0 && std::ranges::any_of(inputs, [](float x) { return x != 0; }))
      kept.push_back(n);
  }
  if (kept.size() == batch) return;
  std::vector<float> left, right;
  left.reserve(factors->left.size() / batch * kept.size());
  right.reserve(columns * kept.size());
  for (size_t row = 0; row < factors->left.size(); row += batch) {
    for (const uint64_t n : kept) left.push_back(factors->left[row + n]);
  }
  for (const uint64_t n : kept) {
    const auto inputs = factors->right.begin() + static_cast<std::ptrdiff_t>(n * columns);
    right.insert(right.end(), inputs, inputs + static_cast<std::ptrdiff_t>(columns));
  }
  factors->left = std::move(left);
  factors->right = std::move(right);
  factors->batch = kept.size();
}

float Largest(std::span<const float> values) {
  float largest = 0;
  for (float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

// Puts the matrix's largest value in about the middle of binary16's range, so that values down to a
// 2^25th of it do not become 0.
int ShiftFor(float largest) {
  if (largest == 0) return 0;
  return std::clamp(-std::ilogb(largest), -kMostShift, kMostShift);
}

const std::byte* AsRaw(const std::vector<float>& floats) {
  return reinterpret_cast<const std::byte*>(floats.data());
}

}  // namespace

uint64_t FactorFloats(ByteSpan payload, std::span<const SliceShape> shapes) {
  if (payload.size() < sizeof(uint32_t) || shapes.empty()) return 0;
  const uint64_t batch = LoadField<uint32_t>(payload.data());
  return batch * (shapes[0].tensor_columns + RowsOf(shapes));
}

float FactorsEncoder::RoundRow(size_t begin, size_t count, uint32_t first,
                               const FactorsDraw& draw) {
  const auto values = factors_.subspan(begin, count);
  QuantizeDraw rounding;
  rounding.largest_level = kMostLevel;
  rounding.unit = QuantizedUnit(Largest(values), kMostLevel);
  rounding.inverse = InverseUnit(rounding.unit);
  rounding.stochastic = true;
  rounding.key = draw.key;
  rounding.step = draw.step;
  rounding.first = first;
  kernels_.quantize.quantize(values, rounding, levels_.data() + begin, nullptr);
  return rounding.unit;
}

void FactorsEncoder::RoundToBytes(const FactorsDraw& draw) {
  const size_t width = factors_.size() / batch_;
  const auto groups = [](size_t count) {
    return (count + kRandomGroup - 1) / kRandomGroup * kRandomGroup;
  };
  const size_t padded = groups(columns_), drawn = padded + groups(width - columns_);
  levels_.resize(factors_.size());
  for (uint64_t n = 0; n < batch_; ++n) {
    const auto first = static_cast<uint32_t>(n * drawn);
    right_units_.push_back(CoarseBits(RoundRow(n * width, columns_, first, draw)));
    left_units_.push_back(CoarseBits(RoundRow(n * width + columns_, width - columns_,
                                              first + static_cast<uint32_t>(padded), draw)));
  }
}

void FactorsEncoder::Begin(std::span<const float> factors, uint64_t batch, uint64_t columns,
                           const FactorsDraw& draw) {
  factors_ = factors;
  batch_ = batch;
  columns_ = columns;
  const size_t width = factors.size() / batch;
  step_coding_ = ValueCoding::kFloat;
  left_shift_ = right_shift_ = 0;
  left_units_.clear();
  right_units_.clear();
  if (coding_ != ValueCoding::kFloat) {
    float left = 0, right = 0;
    for (uint64_t n = 0; n < batch; ++n) {
      const auto row = factors.subspan(n * width, width);
      right = std::max(right, Largest(row.first(columns)));
      left = std::max(left, Largest(row.subspan(columns)));
    }
    // Both would turn infinite values into finite numbers, but a shard should refuse them.
    const float largest = kernels_.dense.largest(AsBytes(factors).data(), factors.size());
    if (std::isfinite(largest)) step_coding_ = coding_;
    if (step_coding_ == ValueCoding::kHalf) {
      left_shift_ = ShiftFor(left);
      right_shift_ = ShiftFor(right);
    }
    if (step_coding_ == ValueCoding::kByte) RoundToBytes(draw);
  }
  const float scale = std::ldexp(1.0f, right_shift_);
  matrix_.clear();
  for (uint64_t n = 0; n < batch; ++n) {
    for (uint64_t j = 0; j < columns; ++j) matrix_.push_back(Sent(n * width + j) * scale);
  }
  right_.clear();
  AppendMatrix(right_units_, &right_);
}

bool FactorsEncoder::Encode(std::span<const SliceShape> shapes, std::vector<std::byte>* out) {
  if (!Pays(batch_, shapes)) return false;
  const size_t width = factors_.size() / batch_;
  const float scale = std::ldexp(1.0f, left_shift_);
  matrix_.clear();
  for (const SliceShape& shape : shapes) {
    const uint64_t first = shape.offset / columns_, rows = MatrixView(shape).rows;
    for (uint64_t row = first; row < first + rows; ++row) {
      for (uint64_t n = 0; n < batch_; ++n) {
        matrix_.push_back(Sent(n * width + columns_ + row) * scale);
      }
    }
  }
  std::byte* const header = Grow(kHeaderBytes, out);
  StoreField(static_cast<uint32_t>(batch_), header);
  StoreField(static_cast<uint32_t>(right_.size()), header + 4);
  StoreField(static_cast<int16_t>(right_shift_), header + 8);
  StoreField(static_cast<int16_t>(left_shift_), header + 10);
  out->insert(out->end(), right_.begin(), right_.end());
  AppendMatrix(left_units_, out);
  return true;
}

void FactorsEncoder::AppendMatrix(std::span<const uint16_t> units, std::vector<std::byte>* out) {
  if (!nonzero_.Encode(matrix_, out, step_coding_)) {
    all_.resize(matrix_.size());
    std::iota(all_.begin(), all_.end(), 0u);
    WriteSparse({all_, matrix_, matrix_.size()}, step_coding_, -1, kernels_, out);
  }
  const ByteSpan bytes = std::as_bytes(units);
  out->insert(out->end(), bytes.begin(), bytes.end());
}

StatusOrReaders OpenFactors(ByteSpan payload, std::span<const SliceShape> shapes,
                            const CodecKernels& kernels) {
  if (payload.size() < kHeaderBytes) {
    return absl::InvalidArgumentError("factors payload ends within its header");
  }
  for (const SliceShape& shape : shapes) {
    if (shape.tensor_columns != shapes[0].tensor_columns) {
      return absl::InvalidArgumentError("factors payload for slices of several tensors");
    }
  }
  const uint32_t batch = LoadField<uint32_t>(payload.data());
  const uint32_t right_bytes = LoadField<uint32_t>(payload.data() + 4);
  const int right_shift = LoadField<int16_t>(payload.data() + 8);
  const int left_shift = LoadField<int16_t>(payload.data() + 10);
  const ByteSpan rest = payload.subspan(kHeaderBytes);
  if (batch == 0 || !Pays(batch, shapes)) {
    return InvalidArgumentError("factors payload of ", batch, " samples for ", shapes.size(),
                                " slices, which are no longer than that");
  }
  if (right_bytes > rest.size()) {
    return absl::InvalidArgumentError("factors payload ends within its first matrix");
  }
  auto factors = std::make_shared<Factors>();
  factors->batch = batch;
  factors->columns = shapes[0].tensor_columns;
  PSGD_ASSIGN_OR_RETURN(factors->right,
                        ReadMatrix(rest.first(right_bytes), batch * factors->columns, right_shift,
                                   batch, factors->columns, kernels));
  PSGD_ASSIGN_OR_RETURN(factors->left, ReadMatrix(rest.subspan(right_bytes), batch * RowsOf(shapes),
                                                  left_shift, batch, 1, kernels));
  if (!ProductIsFinite(AsRaw(factors->left), factors->left.size(), AsRaw(factors->right),
                       factors->right.size(), batch)) {
    return absl::OutOfRangeError("factors payload holds a product that may be infinite");
  }
  factors->largest = LargestProduct(AsRaw(factors->left), factors->left.size(),
                                    AsRaw(factors->right), factors->right.size(), batch);
  LeaveOutZeros(factors.get());
  std::vector<std::unique_ptr<PayloadReader>> readers;
  const float* left = factors->left.data();
  for (const SliceShape& shape : shapes) {
    readers.push_back(std::make_unique<ProductReader>(factors, left, shape, kernels));
    left += MatrixView(shape).rows * factors->batch;
  }
  return readers;
}

}  // namespace psgd
