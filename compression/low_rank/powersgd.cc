#include "compression/low_rank/powersgd.h"

#include <algorithm>
#include <cstring>

#include "compression/low_rank/low_rank.h"
#include "compression/low_rank/orthonormal.h"
#include "compression/low_rank/powersgd_payload.h"
#include "compression/payload_bytes.h"

namespace psgd {
namespace {

class PowersgdEncoder final : public Encoder {
 public:
  PowersgdEncoder(uint32_t rank, const SliceShape& shape, const CodecKernels& kernels)
      : rank_(rank), view_(shape), pays_(LowRankPays(view_, rank)), kernels_(kernels) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override {
    if (!input.residual.empty()) kernels_.dense.add(input.gradient, input.residual);
    const std::span<const float> corrected =
        input.residual.empty() ? input.gradient : input.residual;
    if (pays_) {
      Factor(corrected, input);
      if (ProductIsFinite(Bytes(left_), left_.size(), Bytes(right_), right_.size(), rank_)) {
        Write(out);
        if (!input.residual.empty()) TakeOff(input.residual);
        Reseed(input);
        return;
      }
      right_.clear();
    }
    EncodeHalves(corrected, input.residual, out);
  }

  // right_ fits: it is filled only if both matrices together are shorter than the slice.
  void SaveState(std::span<float> arrays) const override {
    std::ranges::copy(right_, arrays.begin());
  }
  void LoadState(std::span<const float> arrays) override {
    right_.clear();
    if (!pays_) return;
    const auto saved = arrays.first(rank_ * view_.columns);
    if (std::ranges::any_of(saved, [](float v) { return v != 0; })) {
      right_.assign(saved.begin(), saved.end());
    }
  }

 private:
  static const std::byte* Bytes(const std::vector<float>& floats) {
    return reinterpret_cast<const std::byte*>(floats.data());
  }
  std::span<float> Right(uint32_t k) {
    return std::span(right_).subspan(k * view_.columns, view_.columns);
  }

  // Computes P in left_, row by row, and Q in right_, column by column.
  void Factor(std::span<const float> matrix, const EncodeInput& input) {
    if (right_.empty()) right_.assign(rank_ * view_.columns, 0.0f);
    Reseed(input);
    left_.assign(view_.rows * rank_, 0.0f);
    view_.ForRows(0, matrix.size(), [&](uint64_t row, uint64_t column, size_t begin, size_t count) {
      for (uint32_t k = 0; k < rank_; ++k) {
        left_[row * rank_ + k] = static_cast<float>(
            kernels_.low_rank.dot(matrix.subspan(begin, count), Right(k).data() + column));
      }
    });
    MakeOrthonormal(left_, rank_);
    std::ranges::fill(right_, 0.0f);
    view_.ForRows(0, matrix.size(), [&](uint64_t row, uint64_t column, size_t begin, size_t count) {
      const auto* part = reinterpret_cast<const std::byte*>(&matrix[begin]);
      for (uint32_t k = 0; k < rank_; ++k) {
        kernels_.dense.add_scaled(left_[row * rank_ + k], part, Right(k).subspan(column, count));
      }
    });
  }

  void Write(std::vector<std::byte>* out) const {
    const size_t left = left_.size() * sizeof(float), right = right_.size() * sizeof(float);
    std::byte* payload = Grow(kPowersgdHeaderBytes + left + right, out);
    StoreField(rank_, payload);
    std::memcpy(payload + kPowersgdHeaderBytes, left_.data(), left);
    std::memcpy(payload + kPowersgdHeaderBytes + left, right_.data(), right);
  }

  // Subtracts what was sent from the residual, which is c.
  void TakeOff(std::span<float> residual) const {
    view_.ForRows(0, residual.size(),
                  [&](uint64_t row, uint64_t column, size_t begin, size_t count) {
                    kernels_.low_rank.expand(Bytes(left_) + row * rank_ * sizeof(float),
                                             Bytes(right_) + column * sizeof(float), view_.columns,
                                             rank_, -1, residual.subspan(begin, count));
                  });
  }

  // Draws columns of Q that are zero, because power iteration would leave them zero.
  void Reseed(const EncodeInput& input) {
    for (uint32_t k = 0; k < rank_; ++k) {
      const std::span<float> column = Right(k);
      if (std::ranges::any_of(column, [](float v) { return v != 0; })) continue;
      RandomStream stream(input.key, ColumnStream(input.step, k));
      for (float& value : column) value = stream.NextUnit() - 0.5f;
    }
  }

  void EncodeHalves(std::span<const float> corrected, std::span<float> residual,
                    std::vector<std::byte>* out) const {
    std::byte* payload = Grow(kPowersgdHeaderBytes + corrected.size() * sizeof(uint16_t), out);
    StoreField(uint32_t{0}, payload);
    kernels_.fp16.encode(corrected, nullptr, payload + kPowersgdHeaderBytes);
    kernels_.fp16.add(-1, payload + kPowersgdHeaderBytes, residual);
  }

  const uint32_t rank_;
  const MatrixView view_;
  const bool pays_;
  const CodecKernels& kernels_;
  std::vector<float> left_;
  std::vector<float> right_;  // empty: not drawn yet
};

class Powersgd final : public Codec {
 public:
  Powersgd(uint32_t rank, const CodecKernels& kernels)
      : Codec(CODEC_POWERSGD, "powersgd", kernels), rank_(rank) {}

  size_t state_arrays() const override { return 1; }
  // With another rank, Q is another matrix.
  uint32_t memory() const override { return CODEC_POWERSGD | rank_ << 8; }
  std::optional<TwinCodec> Twin(const SliceShape& shape) const override {
    const MatrixView view(shape);
    return PowersgdTwin{LowRankPays(view, rank_) ? rank_ : 0, view.rows, view.columns, view.first};
  }
  std::unique_ptr<Encoder> NewEncoder(const SliceShape& shape) const override {
    return std::make_unique<PowersgdEncoder>(rank_, shape, kernels());
  }
  StatusOrReader Open(ByteSpan payload, const SliceShape& shape) const override {
    return OpenPowersgd(payload, shape, kernels());
  }
  // Matrices are sent only where they are shorter than this.
  size_t MaxPayload(uint32_t elements) const override {
    return kPowersgdHeaderBytes + size_t{elements} * sizeof(uint16_t);
  }

 private:
  const uint32_t rank_;
};

}  // namespace

StatusOrCodec MakePowersgd(const PowersgdCodec& config, const CodecKernels& kernels) {
  const int64_t rank = config.rank();
  if (rank < 1 || rank > kMostRank) {
    return InvalidArgumentError("powersgd.rank is ", rank, "; it is 1 to 64, such as 4");
  }
  return std::make_unique<Powersgd>(static_cast<uint32_t>(rank), kernels);
}

}  // namespace psgd
