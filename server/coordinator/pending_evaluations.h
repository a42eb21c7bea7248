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
  // Of the weights after this segment (0: of the checkpoint that the run went on from), which are
  // `epoch` epochs old. Replaces those within the epoch that ends at `end` and that no worker makes
  // yet.
  void Add(uint64_t after_segment, double epoch, double end);
  // The epoch that this worker evaluates: as before, or that of the first evaluation that nobody
  // makes yet and that `may_make` allows, by its segment.
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
