// Pushes of a dense layer's weights as the factors of their gradient.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "compression/low_rank/factors_payload.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"
#include "worker/encoded_slice.h"

namespace psgd {

// The pushes of one parameter. Not thread-safe.
class FactorPushes {
 public:
  // `rows`: how many rows the factors of a step have. `key`: for this worker's random draws for
  // this parameter.
  FactorPushes(const ParameterSpec& parameter, uint32_t index, const Placement& placement,
               int64_t rows, const FactorsCodec& codec = FactorsCodec::default_instance(),
               PhiloxKey key = {});

  // Makes one payload of factors for each shard. If factors save no bytes for a shard's slices, or
  // if one message cannot name all these slices, each of them gets its gradient instead. Such a
  // gradient includes `decay` times the weights.
  void Encode(std::span<const float> factors, std::span<const float> weights, float decay,
              uint64_t step, std::vector<EncodedSlice>* out);
  // The gradient itself, with `decay` times the weights.
  std::vector<float> Product(std::span<const float> factors, std::span<const float> weights,
                             float decay) const;

 private:
  // The slices on one shard.
  struct Group {
    std::vector<uint32_t> slices;
    std::vector<SliceShape> shapes;
  };
  // The product's `count` elements from `offset` on.
  std::vector<float> PartOfProduct(uint64_t offset, uint64_t count, std::span<const float> factors,
                                   std::span<const float> weights, float decay) const;

  const uint64_t rows_;
  const uint64_t columns_;  // of the weights
  const PhiloxKey key_;
  std::map<uint32_t, Group> groups_;  // by shard
  FactorsEncoder encoder_;
};

}  // namespace psgd
