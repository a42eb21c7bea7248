#include "compression/saved_state.h"

#include <vector>

#include "compression/payload_bytes.h"

namespace psgd {

std::optional<SavedState> ReadSavedState(ByteSpan saved, uint64_t elements) {
  const size_t array = elements * sizeof(float);
  SavedState state;
  if (array == 0 || saved.size() < array) return std::nullopt;
  state.residual = saved.first(array);
  if (saved.size() == array) return state;
  if (saved.size() != 2 * array + sizeof state.memory) return std::nullopt;
  state.remembered = saved.subspan(array, array);
  state.memory = LoadField<uint32_t>(saved.data() + 2 * array);
  if (state.memory == 0) return std::nullopt;
  return state;
}

Bytes MakeSavedState(std::span<const float> arrays, uint32_t memory) {
  const ByteSpan values = AsBytes(arrays);
  std::vector<std::byte> saved(values.begin(), values.end());
  if (memory != 0) StoreField(memory, Grow(sizeof memory, &saved));
  return Bytes::Adopt(std::move(saved));
}

}  // namespace psgd
