#include "server/coordinator/run_state.h"

#include <utility>

namespace psgd {

bool RunState::Drain(const DrainRequest& request) {
  // A failure counts also in a run that ends early, and so does a wish to end at once.
  if (over() || asked_to_end()) return false;
  stopped_early_ = false;
  draining_ = true;
  drain_failed_ = request.failed();
  drain_reason_ = request.reason().empty() ? "asked to" : request.reason();
  if (trains()) state_ = StatusReply::DRAINING;
  return true;
}

void RunState::StopEarly(std::string reason) {
  stopped_early_ = draining_ = true;
  drain_reason_ = std::move(reason);
  if (trains()) state_ = StatusReply::DRAINING;
}

void RunState::Save(CoordinatorRecord* record) const {
  record->set_state(state_);
  record->set_draining(draining_);
  record->set_drain_failed(drain_failed_);
  record->set_drain_reason(drain_reason_);
  record->set_stopped_early(stopped_early_);
}

void RunState::Restore(const CoordinatorRecord& record) {
  state_ = record.state();
  draining_ = record.draining();
  drain_failed_ = record.drain_failed();
  drain_reason_ = record.drain_reason();
  stopped_early_ = record.stopped_early();
}

}  // namespace psgd
