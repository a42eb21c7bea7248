// Gradients that are zero but for a few entries, as those of an embedding's table: the entries alone,
// in the wire format of topk.h. Nothing is lost, so there is no residual.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace psgd {

// Not thread-safe.
class NonzeroEncoder {
 public:
  // Appends the payload; false, and nothing, where sending all elements takes no more room.
  bool Encode(std::span<const float> gradient, std::vector<std::byte>* out);

 private:
  // Kept from step to step only to spare allocations.
  std::vector<uint32_t> indices_;
  std::vector<float> values_;
};

}  // namespace psgd
