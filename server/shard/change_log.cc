#include "server/shard/change_log.h"

#include <bit>
#include <utility>

namespace psgd {

// Entries carry indices: entries for more than half of the slice are no shorter than the slice.
ChangeLog::ChangeLog(uint32_t elements, uint64_t version)
    : elements_(elements), changes_(elements / 2, version) {}

void ChangeLog::Add(uint64_t version, std::vector<uint32_t> indices) {
  const size_t size = indices.size();
  changes_.Add({version, std::move(indices)}, size);
}

std::optional<std::vector<uint32_t>> ChangeLog::Since(uint64_t version) const {
  const auto since = changes_.Since(version);
  if (!since) return std::nullopt;
  if (since->empty()) return std::vector<uint32_t>();
  if (since->size() == 1) return since->front()->indices;
  constexpr uint32_t kBits = 64;
  std::vector<uint64_t> changed((elements_ + kBits - 1) / kBits);
  for (const Change* change : *since) {
    for (uint32_t index : change->indices) changed[index / kBits] |= uint64_t{1} << index % kBits;
  }
  std::vector<uint32_t> indices;
  for (size_t word = 0; word < changed.size(); ++word) {
    for (uint64_t bits = changed[word]; bits != 0; bits &= bits - 1) {
      indices.push_back(static_cast<uint32_t>(word * kBits) +
                        static_cast<uint32_t>(std::countr_zero(bits)));
    }
  }
  return indices;
}

}  // namespace psgd
