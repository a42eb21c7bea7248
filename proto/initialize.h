// Initial weights, computed from the run's seed by the shard that owns them.
#pragma once

#include <cstdint>
#include <span>

#include "proto/model.pb.h"

namespace psgd {

// Writes the initial values of elements [offset, offset + out.size()) of a parameter. Each element
// is a pure function of (seed, parameter_index, its position), so any range can be computed alone
// and gives the same bits. A spec without initializer starts at zero.
// REQUIRES: the values are not given (server/shard/given_weights.h). Thread-safe.
void FillInitial(const ParameterSpec& spec, uint64_t seed, uint32_t parameter_index,
                 uint64_t offset, std::span<float> out);

}  // namespace psgd
