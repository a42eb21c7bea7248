#include "compression/factors_payload.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/factors.h"
#include "compression/matrix_view.h"
#include "compression/payload_bytes.h"
#include "compression/powersgd_payload.h"
#include "compression/sparse_payload.h"

namespace psgd {
namespace {

constexpr size_t kHeaderBytes = 8;

// Both matrices of one payload.
struct Factors {
  uint64_t batch = 0;
  uint64_t columns = 0;
  std::vector<float> left;   // D
  std::vector<float> right;  // X
  float largest = 0;         // of the product
};

// Rows of D that are sent for these slices: those that each touches.
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

// One slice's part of the product. Rows are computed some at a time, as they are asked for.
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
  }

 private:
  // A tile of the product stays in the second-level cache until its last row was read.
  static constexpr uint64_t kTileRows = 4, kTileColumns = 16384;

  // Of that row, from that column on, as much as the tile has.
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

absl::StatusOr<std::vector<float>> ReadMatrix(ByteSpan bytes, uint64_t count,
                                              const CodecKernels& kernels) {
  PSGD_ASSIGN_OR_RETURN(const auto reader,
                        OpenSparse(bytes, static_cast<uint32_t>(count), "factors", kernels));
  std::vector<float> matrix(count);
  reader->AddBlock(1, matrix);
  return matrix;
}

const std::byte* AsRaw(const std::vector<float>& floats) {
  return reinterpret_cast<const std::byte*>(floats.data());
}

}  // namespace

void FactorsEncoder::Begin(std::span<const float> factors, uint64_t batch, uint64_t columns) {
  factors_ = factors;
  batch_ = batch;
  columns_ = columns;
  matrix_.clear();
  const size_t width = factors.size() / batch;
  for (uint64_t n = 0; n < batch; ++n) {
    const auto row = factors.subspan(n * width, columns);
    matrix_.insert(matrix_.end(), row.begin(), row.end());
  }
  right_.clear();
  AppendMatrix(matrix_, &right_);
}

bool FactorsEncoder::Encode(std::span<const SliceShape> shapes, std::vector<std::byte>* out) {
  if (!Pays(batch_, shapes)) return false;
  const size_t width = factors_.size() / batch_;
  matrix_.clear();
  for (const SliceShape& shape : shapes) {
    const uint64_t first = shape.offset / columns_, rows = MatrixView(shape).rows;
    for (uint64_t row = first; row < first + rows; ++row) {
      for (uint64_t n = 0; n < batch_; ++n) {
        matrix_.push_back(factors_[n * width + columns_ + row]);
      }
    }
  }
  std::byte* const header = Grow(kHeaderBytes, out);
  StoreField(static_cast<uint32_t>(batch_), header);
  StoreField(static_cast<uint32_t>(right_.size()), header + 4);
  out->insert(out->end(), right_.begin(), right_.end());
  AppendMatrix(matrix_, out);
  return true;
}

void FactorsEncoder::AppendMatrix(std::span<const float> matrix, std::vector<std::byte>* out) {
  if (nonzero_.Encode(matrix, out)) return;
  all_.resize(matrix.size());
  std::iota(all_.begin(), all_.end(), 0u);
  std::vector<float> values(matrix.begin(), matrix.end());
  WriteSparse({all_, values, matrix.size()}, ValueCoding::kFloat, -1, kernels_, out);
}

absl::StatusOr<std::vector<std::unique_ptr<PayloadReader>>> OpenFactors(
    ByteSpan payload, std::span<const SliceShape> shapes, const CodecKernels& kernels) {
  if (payload.size() < kHeaderBytes) {
    return absl::InvalidArgumentError("factors payload ends within its header");
  }
  const uint32_t batch = LoadField<uint32_t>(payload.data());
  const uint32_t right_bytes = LoadField<uint32_t>(payload.data() + 4);
  const ByteSpan rest = payload.subspan(kHeaderBytes);
  if (batch == 0 || !Pays(batch, shapes)) {
    return absl::InvalidArgumentError(absl::StrCat("factors payload of ", batch, " samples for ",
                                                   shapes.size(),
                                                   " slices, which are no longer than that"));
  }
  if (right_bytes > rest.size()) {
    return absl::InvalidArgumentError("factors payload ends within its first matrix");
  }
  auto factors = std::make_shared<Factors>();
  factors->batch = batch;
  factors->columns = shapes[0].tensor_columns;
  PSGD_ASSIGN_OR_RETURN(factors->right,
                        ReadMatrix(rest.first(right_bytes), batch * factors->columns, kernels));
  PSGD_ASSIGN_OR_RETURN(factors->left,
                        ReadMatrix(rest.subspan(right_bytes), batch * RowsOf(shapes), kernels));
  if (!ProductIsFinite(AsRaw(factors->left), factors->left.size(), AsRaw(factors->right),
                       factors->right.size(), batch)) {
    return absl::OutOfRangeError("factors payload holds a product that may be infinite");
  }
  factors->largest = LargestProduct(AsRaw(factors->left), factors->left.size(),
                                    AsRaw(factors->right), factors->right.size(), batch);
  std::vector<std::unique_ptr<PayloadReader>> readers;
  const float* left = factors->left.data();
  for (const SliceShape& shape : shapes) {
    readers.push_back(std::make_unique<ProductReader>(factors, left, shape, kernels));
    left += MatrixView(shape).rows * batch;
  }
  return readers;
}

}  // namespace psgd
