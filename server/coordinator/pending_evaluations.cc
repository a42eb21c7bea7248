#include "server/coordinator/pending_evaluations.h"

#include <algorithm>
#include <cmath>

namespace psgd {
namespace {

bool Makes(uint32_t worker, const PendingEvaluationRecord& pending) {
  return pending.has_evaluator() && pending.evaluator().worker() == worker;
}

}  // namespace

void PendingEvaluations::Add(uint64_t after_segment, double epoch, double end) {
  std::erase_if(pending_, [&](const PendingEvaluationRecord& pending) {
    return std::ceil(pending.epoch()) == end && !pending.has_evaluator();
  });
  PendingEvaluationRecord& pending = pending_.emplace_back();
  pending.set_after(after_segment);
  pending.set_epoch(epoch);
}

std::optional<double> PendingEvaluations::Assign(const WorkerKey& worker,
                                                 const std::function<bool(uint64_t)>& may_make) {
  for (PendingEvaluationRecord& pending : pending_) {
    if (!pending.has_evaluator() && may_make(pending.after())) {
      *pending.mutable_evaluator() = worker;
    }
    if (Makes(worker.worker(), pending)) return pending.epoch();
  }
  return std::nullopt;
}

void PendingEvaluations::Release(uint32_t worker) {
  for (PendingEvaluationRecord& pending : pending_) {
    if (Makes(worker, pending)) pending.clear_evaluator();
  }
}

bool PendingEvaluations::Done(uint32_t worker, double epoch) {
  const auto found = std::ranges::find_if(pending_, [&](const PendingEvaluationRecord& pending) {
    return pending.epoch() == epoch && Makes(worker, pending);
  });
  if (found == pending_.end()) return false;
  pending_.erase(found);
  return true;
}

bool PendingEvaluations::Evaluates(uint32_t worker) const {
  return std::ranges::any_of(
      pending_, [&](const PendingEvaluationRecord& pending) { return Makes(worker, pending); });
}

void PendingEvaluations::Save(CoordinatorRecord* record) const {
  record->mutable_pending_evaluations()->Add(pending_.begin(), pending_.end());
}

void PendingEvaluations::Restore(const CoordinatorRecord& record) {
  pending_.assign(record.pending_evaluations().begin(), record.pending_evaluations().end());
}

}  // namespace psgd
