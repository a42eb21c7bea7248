#include "server/cluster/wait_news.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace psgd {

void WaitNews::See(std::string waits, std::optional<Time> since, Time now, ServerEffects* effects) {
  if (waits_.empty()) since_ = since.value_or(now);
  if (!waits.empty() && !told_ && now >= since_ + kMoment) {
    told_ = true;
    effects->push_back(effect::News{waits});
  }
  if (waits.empty() && std::exchange(told_, false)) {
    effects->push_back(effect::News{absl::StrCat(
        "goes on after ", static_cast<int64_t>(std::lround(Seconds(now - since_))), " s")});
  }
  waits_ = std::move(waits);
}

}  // namespace psgd
