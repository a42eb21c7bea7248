// What the worker's log says about the training: a line every ten seconds, how a GPU computes and
// launches the steps, and what is left out of the data.
#pragma once

#include <cstdint>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "data/skip_damaged.h"
#include "engine/runtime/replicas.h"

namespace psgd {

// Not thread-safe.
class ProgressLog {
 public:
  explicit ProgressLog(Log log) : log_(std::move(log)) {}

  // The step that leads to `clock` is done. `samples`: how many count in its loss. `wait`: seconds
  // that the worker waited before it.
  void Add(uint64_t clock, uint64_t samples, double loss_sum, double wait, Time now);
  // The step gave `result`. Logs once how a GPU computes and launches the steps, and logs each step
  // whose gradients left the range of fp16 and were computed again.
  void ReportLaunches(uint64_t clock, const Network::Result& result, const Replicas& network,
                      bool on_gpu);
  // Logs what was left out of the data since the last call. `damage`: null: the run leaves nothing
  // out.
  void ReportDamage(const DamageCount* damage);
  // The number of steps since the start.
  uint64_t all_steps() const { return all_steps_; }

 private:
  const Log log_;
  uint64_t gpu_steps_ = 0;
  uint64_t repeated_steps_ = 0;  // computed again because gradients left the range of fp16
  uint64_t reported_damage_ = 0;
  // The time of the last line, or of the first step before there is a line. The counts below are
  // since then, except all_steps_.
  Time since_{};
  uint64_t steps_ = 0;
  uint64_t all_steps_ = 0;
  uint64_t samples_ = 0;
  double loss_sum_ = 0;
  double wait_ = 0;
};

}  // namespace psgd
