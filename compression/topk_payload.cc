#include "compression/topk_payload.h"

#include <cstring>

#include "compression/payload_bytes.h"
#include "compression/rice.h"

namespace psgd {

void WriteTopkPayload(std::span<const uint32_t> indices, std::span<const float> values,
                      std::vector<std::byte>* out) {
  const RiceShape shape = ChooseRice(indices);
  const size_t index_bytes = (shape.total_bits + 7) / 8;
  std::byte* payload = Grow(2 * sizeof(uint32_t) + values.size_bytes() + index_bytes, out);
  StoreField(static_cast<uint32_t>(values.size()), payload);
  StoreField(shape.low_bits, payload + sizeof(uint32_t));
  payload += 2 * sizeof(uint32_t);
  if (!values.empty()) std::memcpy(payload, values.data(), values.size_bytes());
  WriteRice(indices, shape, payload + values.size_bytes());
}

}  // namespace psgd
