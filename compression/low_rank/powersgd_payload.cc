#include "compression/low_rank/powersgd_payload.h"

#include "compression/dense/half_codec.h"
#include "compression/low_rank/low_rank.h"
#include "compression/low_rank/powersgd.h"
#include "compression/magnitude.h"
#include "compression/payload_bytes.h"
#include "compression/sparse/select.h"

namespace psgd {
namespace {

class LowRankReader final : public PayloadReader {
 public:
  LowRankReader(const MatrixView& view, uint32_t rank, const std::byte* left,
                const CodecKernels& kernels)
      : PayloadReader(view.elements),
        view_(view),
        rank_(rank),
        left_(left),
        right_(left + view.rows * rank * sizeof(float)),
        kernels_(kernels) {}

  void AddBlock(float scale, std::span<float> block) override {
    view_.ForRows(position_, block.size(),
                  [&](uint64_t row, uint64_t column, size_t begin, size_t count) {
                    kernels_.low_rank.expand(left_ + row * rank_ * sizeof(float),
                                             right_ + column * sizeof(float), view_.columns, rank_,
                                             scale, block.subspan(begin, count));
                  });
    position_ += block.size();
  }
  float Largest() const override {
    return LargestProduct(left_, view_.rows * rank_, right_, view_.columns * rank_, rank_);
  }

 private:
  const MatrixView view_;
  const uint32_t rank_;
  const std::byte* const left_;
  const std::byte* const right_;
  const CodecKernels& kernels_;
  size_t position_ = 0;
};

}  // namespace

bool LowRankPays(const MatrixView& view, uint64_t rank) {
  return view.columns > 0 && view.columns < view.elements &&
         LowRankFloats(view, rank) * sizeof(float) < uint64_t{view.elements} * sizeof(uint16_t);
}

float LargestProduct(const std::byte* left, size_t left_count, const std::byte* right,
                     size_t right_count, uint32_t rank) {
  // Bounds of the rounding error of sums: relative, and for the smallest numbers.
  constexpr double kRounding = 1.01, kLeast = std::numeric_limits<float>::denorm_min();
  const double product =
      double{LargestMagnitude(left, left_count)} * double{LargestMagnitude(right, right_count)};
  return static_cast<float>(rank * (product * kRounding + kLeast));
}

bool ProductIsFinite(const std::byte* left, size_t left_count, const std::byte* right,
                     size_t right_count, uint32_t rank) {
  return SumsAreFinite(std::bit_cast<uint32_t>(LargestMagnitude(left, left_count)),
                       std::bit_cast<uint32_t>(LargestMagnitude(right, right_count)), rank);
}

StatusOrReader OpenPowersgd(ByteSpan payload, const SliceShape& shape,
                            const CodecKernels& kernels) {
  if (payload.size() < kPowersgdHeaderBytes) {
    return absl::InvalidArgumentError("powersgd payload ends before its rank");
  }
  const uint32_t rank = LoadField<uint32_t>(payload.data());
  const ByteSpan rest = payload.subspan(kPowersgdHeaderBytes);
  if (rank == 0) return OpenHalves(rest, shape.elements, "powersgd", kernels.fp16);
  const MatrixView view(shape);
  if (rank > kMostRank || !LowRankPays(view, rank)) {
    return InvalidArgumentError("powersgd payload of rank ", rank, " for ", shape.elements,
                                " elements in rows of ", shape.tensor_columns);
  }
  const size_t expected = LowRankFloats(view, rank) * sizeof(float);
  if (rest.size() != expected) {
    return InvalidArgumentError("powersgd payload of ", payload.size(),
                                " bytes: ", expected + kPowersgdHeaderBytes, " expected at rank ",
                                rank);
  }
  const size_t left = view.rows * rank, right = view.columns * rank;
  if (!ProductIsFinite(rest.data(), left, rest.data() + left * sizeof(float), right, rank)) {
    return absl::OutOfRangeError("powersgd payload holds NaN, infinity, or a product that may be");
  }
  return std::make_unique<LowRankReader>(view, rank, rest.data(), kernels);
}

}  // namespace psgd
