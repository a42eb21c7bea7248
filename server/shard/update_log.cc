#include "server/shard/update_log.h"

#include <algorithm>
#include <utility>

namespace psgd {

void UpdateLog::Add(FactorUpdate update) {
  size_t bytes = 0;
  for (const FactorUpdate::Part& part : update.parts) bytes += part.payload.size();
  updates_.Add(std::move(update), bytes);
}

std::optional<std::vector<FactorUpdate>> UpdateLog::Since(uint64_t version) const {
  const auto since = updates_.Since(version);
  if (!since) return std::nullopt;
  std::vector<FactorUpdate> updates;
  for (const FactorUpdate* update : *since) updates.push_back(*update);
  return updates;
}

bool AreSame(std::span<const FactorUpdate> updates, std::span<const FactorUpdate> others) {
  const auto same_part = [](const FactorUpdate::Part& a, const FactorUpdate::Part& b) {
    return a.scale == b.scale && a.payload.data() == b.payload.data();
  };
  return std::ranges::equal(updates, others, [&](const FactorUpdate& a, const FactorUpdate& b) {
    return a.version == b.version && a.rate == b.rate && a.decay == b.decay &&
           std::ranges::equal(a.parts, b.parts, same_part);
  });
}

}  // namespace psgd
