// The evaluations that are still to be made, and the workers that make them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

#include "proto/journal.pb.h"

namespace psgd {

// Oldest first: with unbounded staleness a fast worker opens further epochs before a slow one has
// finished. Not thread-safe.
class PendingEvaluations {
 public:
  bool empty() const { return pending_.empty(); }
  // Adds an evaluation of the weights after this segment (0: of the checkpoint that the run went on
  // from). The weights are `epoch` epochs old. Replaces the evaluations within the epoch that ends
  // at `end`, except those that a worker makes already.
  void Add(uint64_t after_segment, double epoch, double end);
  // The epoch that this worker evaluates: in its present evaluation, or else in the first
  // evaluation that no worker makes yet and for whose segment `may_make` returns true. Nullopt:
  // there is none.
  std::optional<double> Assign(const WorkerKey& worker,
                               const std::function<bool(uint64_t)>& may_make);
  // The worker is out: others make its evaluations.
  void Release(uint32_t worker);
  // The worker has a result. Returns whether it was awaited.
  bool Done(uint32_t worker, double epoch);

  bool Evaluates(uint32_t worker) const;

  void Save(CoordinatorRecord* record) const;
  void Restore(const CoordinatorRecord& record);

 private:
  std::deque<PendingEvaluationRecord> pending_;
};

}  // namespace psgd
