#include "server/shard/left_residuals.h"

#include <cstring>
#include <vector>

#include "compression/saved_state.h"

namespace psgd {
namespace {

std::vector<float> Values(ByteSpan bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// `heir` may be empty.
Bytes AddResidual(const Bytes& heir, const Bytes& left, uint64_t elements) {
  const auto from = ReadSavedState(left.span(), elements);
  if (!from) return heir;
  std::vector<float> sum = Values(from->residual);
  const auto to = ReadSavedState(heir.span(), elements);
  if (!to) return MakeSavedState(sum, 0);
  const std::vector<float> own = Values(to->residual), remembered = Values(to->remembered);
  for (uint64_t i = 0; i < elements; ++i) sum[i] += own[i];
  sum.insert(sum.end(), remembered.begin(), remembered.end());
  return MakeSavedState(sum, to->memory);
}

}  // namespace

void HandOnResiduals(uint32_t workers, uint64_t elements, std::map<uint32_t, Bytes>* states) {
  for (auto left = states->lower_bound(workers); left != states->end();
       left = states->erase(left)) {
    Bytes& heir = (*states)[left->first % workers];
    heir = AddResidual(heir, left->second, elements);
  }
}

}  // namespace psgd
