#include "server/cluster/late_watch.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/units.h"

namespace psgd {

std::string LateText(const LateWorkers& late, std::span<const std::string> names, int64_t lease) {
  constexpr size_t kMostNamed = 3;
  const bool one = names.size() == 1;
  const size_t named = std::min(names.size(), kMostNamed);
  return absl::StrCat(
      "waiting for ", absl::StrJoin(names.first(named), ", "),
      named < names.size() ? absl::StrCat(" and ", names.size() - named, " more") : "",
      late.silent ? ", not heard"
      : one       ? ", which has"
                  : ", which have",
      late.silent ? "" : absl::StrCat(" not pushed clock ", late.clock), " for more than ",
      std::lround(Seconds(late.patience)), " s; the other workers go on if ",
      one ? "its process ends" : "their processes end",
      late.silent ? absl::StrCat(", or after ", FormatMilliseconds(lease), " (cluster.lease)")
                  : "");
}

Duration LateWatch::Shard::Patience() const {
  const Duration usual =
      (since - first) / static_cast<int64_t>(std::max<uint64_t>(1, clock - first_clock));
  return std::max(kPatience, kUsualClocks * usual);
}

void LateWatch::See(uint32_t shard, const ShardStatus& status, Time now) {
  if (const Duration lost = standstill_.Lost(now); lost > Duration::zero()) {
    for (auto& [number, other] : shards_) {
      other.since += lost;
      other.first += lost;
    }
  }
  const auto [found, is_new] = shards_.try_emplace(shard);
  Shard& seen = found->second;
  if (is_new) {
    seen.first_clock = status.slowest_clock();
    seen.first = now;
  }
  const bool goes_on = seen.late.empty() || seen.clock != status.slowest_clock();
  if (is_new || goes_on) seen.since = now;
  seen.clock = status.slowest_clock();
  seen.late.assign(status.late_workers().begin(), status.late_workers().end());
}

void LateWatch::Excuse(Time now) {
  for (auto& [number, shard] : shards_) shard.since = now;
}

std::optional<LateWorkers> LateWatch::Late(Time now,
                                           const std::function<bool(uint32_t)>& is_silent) const {
  for (const auto& [number, shard] : shards_) {
    if (shard.late.empty() || now - shard.since <= kSilence) continue;
    std::vector<uint32_t> silent;
    std::ranges::copy_if(shard.late, std::back_inserter(silent), is_silent);
    if (!silent.empty())
      return LateWorkers{std::move(silent), shard.clock + 1, shard.since, kSilence, true};
    const Duration patience = shard.Patience();
    if (now - shard.since <= patience) continue;
    return LateWorkers{shard.late, shard.clock + 1, shard.since, patience};
  }
  return std::nullopt;
}

}  // namespace psgd
