// What a shard knows of the run's clocks: their segments, the rates of their updates, and how many
// steps a worker takes in each.
#pragma once

#include <cstdint>
#include <map>

#include "proto/config.pb.h"
#include "proto/control.pb.h"
#include "proto/journal.pb.h"
#include "server/shard/slice_state.h"

namespace psgd {

// Not thread-safe.
class ClockSchedule {
 public:
  // `config` must outlive it.
  explicit ClockSchedule(const Config& config) : config_(config) {}

  void SetHyper(const HyperParameters& hyper) { hyper_ = hyper; }
  // Drops segments that every running worker has left. `slowest`: the clock of the slowest.
  void Begin(const Segment& segment, uint64_t slowest);

  // The segment of the step that leads to `clock`; null: it is not known.
  const Segment* SegmentOf(uint64_t clock) const;
  // The steps of that clock that the worker takes: 1 without local steps.
  uint32_t StepsOf(uint32_t worker, uint64_t clock) const;
  UpdateRates RatesAt(uint64_t clock) const;

  void Save(ShardRecord* record) const;
  void Restore(const ShardRecord& record);

 private:
  const Config& config_;
  HyperParameters hyper_;
  std::map<uint64_t, Segment> segments_;  // by first clock
};

}  // namespace psgd
