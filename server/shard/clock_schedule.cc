#include "server/shard/clock_schedule.h"

#include <algorithm>
#include <iterator>

#include "optimizers/schedule.h"

namespace psgd {

void ClockSchedule::Begin(const Segment& segment, uint64_t slowest) {
  segments_[segment.first_clock()] = segment;
  while (segments_.size() > 1 && std::next(segments_.begin())->first <= slowest) {
    segments_.erase(segments_.begin());
  }
}

const Segment* ClockSchedule::SegmentOf(uint64_t clock) const {
  const auto after = segments_.upper_bound(clock - 1);
  return after == segments_.begin() ? nullptr : &std::prev(after)->second;
}

uint32_t ClockSchedule::StepsOf(uint32_t worker, uint64_t clock) const {
  const Segment* segment = SegmentOf(clock);
  if (segment == nullptr || segment->steps().empty()) return 1;
  const auto& workers = segment->workers();  // ascending
  const auto at = std::ranges::lower_bound(workers, worker);
  if (at == workers.end() || *at != worker) return 1;
  return segment->steps(static_cast<int>(at - workers.begin()));
}

UpdateRates ClockSchedule::RatesAt(uint64_t clock) const {
  const uint64_t step = clock - 1;
  double epoch = 0, epochs_per_clock = 0;
  if (const Segment* segment = SegmentOf(clock)) {
    epochs_per_clock = segment->epochs_per_clock();
    epoch = segment->epoch_at_start() +
            static_cast<double>(step - segment->first_clock()) * epochs_per_clock;
  }
  const double factor = ScheduleFactor(
      config_.schedule(), {.epoch = epoch,
                           .step = step,
                           .epochs_per_step = epochs_per_clock,
                           .total_epochs = static_cast<double>(config_.train().epochs())});
  return {.learning_rate = hyper_.learning_rate() * factor, .weight_decay = hyper_.weight_decay()};
}

void ClockSchedule::Save(ShardRecord* record) const {
  *record->mutable_hyper() = hyper_;
  for (const auto& [clock, segment] : segments_) *record->add_segments() = segment;
}

void ClockSchedule::Restore(const ShardRecord& record) {
  hyper_ = record.hyper();
  for (const Segment& segment : record.segments()) segments_[segment.first_clock()] = segment;
}

}  // namespace psgd
