// The payload of topk.h from chosen entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace psgd {

// Appends it. REQUIRES: indices ascend strictly; as many values.
void WriteTopkPayload(std::span<const uint32_t> indices, std::span<const float> values,
                      std::vector<std::byte>* out);

}  // namespace psgd
