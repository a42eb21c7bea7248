#include "train/factor_layers.h"

#include <string>

#include "compression/low_rank/factors.h"
#include "compression/policy.h"

namespace psgd {
ChooseFactors FactorLayers(const Config& config, size_t parts) {
  if (!PushesFactors(config.compression())) return nullptr;
  const auto shards = static_cast<uint64_t>(config.cluster().shards());
  return [compression = config.compression(), shards, parts](const std::string& name,
                                                             const Shape& weights, int64_t rows) {
    ParameterSpec parameter;
    parameter.set_name(name);
    parameter.mutable_shape()->Add(weights.begin(), weights.end());
    return ChooseCodec(compression, parameter).has_factors() &&
           FactorsPay(static_cast<uint64_t>(rows) * parts, static_cast<uint64_t>(weights[0]),
                      static_cast<uint64_t>(weights[1]), shards);
  };
}

}  // namespace psgd
