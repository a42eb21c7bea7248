// What counts as trained.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/control.pb.h"

namespace psgd {

// Adds what a step counts for: its samples and results, and its bytes if nothing compressed them.
inline void AddSteps(const WorkerReport& steps, WorkerReport* sum) {
  sum->set_steps(sum->steps() + steps.steps());
  sum->set_samples(sum->samples() + steps.samples());
  sum->set_loss_sum(sum->loss_sum() + steps.loss_sum());
  sum->set_correct(sum->correct() + steps.correct());
  sum->set_bytes_pushed_dense(sum->bytes_pushed_dense() + steps.bytes_pushed_dense());
  sum->set_bytes_pulled_dense(sum->bytes_pulled_dense() + steps.bytes_pulled_dense());
}

// A run's total without the local steps that were taken in vain.
inline WorkerReport Trained(WorkerReport total) {
  const WorkerReport vain = total.unpushed();
  const auto without = [](uint64_t sum, uint64_t part) { return sum - std::min(sum, part); };
  total.clear_unpushed();
  total.set_steps(without(total.steps(), vain.steps()));
  total.set_samples(without(total.samples(), vain.samples()));
  total.set_loss_sum(total.loss_sum() - vain.loss_sum());
  total.set_correct(without(total.correct(), vain.correct()));
  total.set_bytes_pushed_dense(without(total.bytes_pushed_dense(), vain.bytes_pushed_dense()));
  total.set_bytes_pulled_dense(without(total.bytes_pulled_dense(), vain.bytes_pulled_dense()));
  return total;
}

}  // namespace psgd
