// Gradients that are zero but for a few entries, as those of an embedding's table: the entries
// alone, in the wire format of topk.h. Nothing is lost, so there is no residual.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compression/sparse/sparse_layout.h"

namespace psgd {

// Not thread-safe.
class NonzeroEncoder {
 public:
  // Appends the payload; false, and nothing, where sending all elements takes no more room. Values
  // coded as binary16 are rounded. REQUIRES: `coding` is not that of signs; of bytes, values are
  // whole numbers from -127 to 127.
  bool Encode(std::span<const float> gradient, std::vector<std::byte>* out,
              ValueCoding coding = ValueCoding::kFloat);

 private:
  // Kept from step to step only to spare allocations.
  std::vector<uint32_t> indices_;
  std::vector<float> values_;
};

}  // namespace psgd
