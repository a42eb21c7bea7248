#include "worker/factor_pushes.h"

#include <utility>

#include "compression/slice_shape.h"
#include "net/message.h"

namespace psgd {
namespace {

ValueCoding CodingOf(FactorsCodec::Values values) {
  switch (values) {
    case FactorsCodec::FP32:
      return ValueCoding::kFloat;
    case FactorsCodec::FP16:
      return ValueCoding::kHalf;
    case FactorsCodec::INT8:
      return ValueCoding::kByte;
  }
  return ValueCoding::kFloat;
}

}  // namespace

FactorPushes::FactorPushes(const ParameterSpec& parameter, uint32_t index,
                           const Placement& placement, int64_t rows, const FactorsCodec& codec,
                           PhiloxKey key)
    : rows_(static_cast<uint64_t>(rows)),
      columns_(static_cast<uint64_t>(parameter.shape(1))),
      key_(key),
      encoder_(KernelsFor(CodecBackend::kSimd), CodingOf(codec.values())) {
  for (int id = 0; id < placement.slices_size(); ++id) {
    const SliceSpec& spec = placement.slices(id);
    if (spec.parameter() != index) continue;
    Group& group = groups_[spec.shard()];
    group.slices.push_back(static_cast<uint32_t>(id));
    group.shapes.push_back(ShapeOf(spec, parameter));
  }
}

void FactorPushes::Encode(std::span<const float> factors, std::span<const float> weights,
                          float decay, uint64_t step, std::vector<EncodedSlice>* out) {
  encoder_.Begin(factors, rows_, columns_, {key_, step});
  for (const auto& [shard, group] : groups_) {
    std::vector<std::byte> payload;
    if (group.slices.size() > kMostParts || !encoder_.Encode(group.shapes, &payload)) {
      for (size_t i = 0; i < group.slices.size(); ++i) {
        const SliceShape& shape = group.shapes[i];
        const std::vector<float> gradient =
            PartOfProduct(shape.offset, shape.elements, factors, weights, decay);
        out->push_back({group.slices[i], CODEC_NONE, Bytes::CopyOf(AsBytes(gradient))});
      }
      continue;
    }
    out->push_back({group.slices.front(),
                    CODEC_FACTORS,
                    Bytes::Adopt(std::move(payload)),
                    {group.slices.begin() + 1, group.slices.end()}});
  }
}

std::vector<float> FactorPushes::Product(std::span<const float> factors,
                                         std::span<const float> weights, float decay) const {
  const uint64_t rows = factors.size() / rows_ - columns_;
  return PartOfProduct(0, rows * columns_, factors, weights, decay);
}

std::vector<float> FactorPushes::PartOfProduct(uint64_t offset, uint64_t count,
                                               std::span<const float> factors,
                                               std::span<const float> weights, float decay) const {
  const size_t width = factors.size() / rows_;
  std::vector<float> gradient(count);
  for (uint64_t e = 0; e < count; ++e) {
    const uint64_t row = (offset + e) / columns_, column = (offset + e) % columns_;
    float sum = 0;
    for (uint64_t n = 0; n < rows_; ++n) {
      sum += factors[n * width + columns_ + row] * factors[n * width + column];
    }
    gradient[e] = decay == 0 ? sum : sum + decay * weights[offset + e];
  }
  return gradient;
}

}  // namespace psgd
