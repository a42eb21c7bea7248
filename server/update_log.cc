#include "server/update_log.h"

#include <algorithm>
#include <utility>

namespace psgd {

namespace {

size_t PayloadBytes(const FactorUpdate& update) {
  size_t bytes = 0;
  for (const FactorUpdate::Part& part : update.parts) bytes += part.payload.size();
  return bytes;
}

}  // namespace

void UpdateLog::Add(FactorUpdate update) {
  latest_ = update.version;
  remembered_ += PayloadBytes(update);
  updates_.push_back(std::move(update));
  while (remembered_ > most_) {
    remembered_ -= PayloadBytes(updates_.front());
    known_from_ = updates_.front().version;
    updates_.pop_front();
  }
}

void UpdateLog::Forget(uint64_t version) {
  updates_.clear();
  remembered_ = 0;
  known_from_ = latest_ = version;
}

std::optional<std::vector<FactorUpdate>> UpdateLog::Since(uint64_t version) const {
  if (version < known_from_ || version > latest_) return std::nullopt;
  const auto first =
      std::find_if(updates_.begin(), updates_.end(),
                   [&](const FactorUpdate& update) { return update.version > version; });
  return std::vector<FactorUpdate>(first, updates_.end());
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
