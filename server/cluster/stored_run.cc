#include "server/cluster/stored_run.h"

#include <utility>

namespace psgd {
namespace {

constexpr Duration kWriteAgain = std::chrono::milliseconds(50);

}  // namespace

void StoredRun::SetPlan(std::shared_ptr<const RunPlan> plan) {
  plan_ = std::move(plan);
  plan_stored_ = false;
}

void StoredRun::Restore(std::shared_ptr<const RunPlan> plan, uint64_t last_order,
                        uint64_t checkpoint_done) {
  plan_ = std::move(plan);
  plan_stored_ = true;
  run_.last_order = last_order;
  run_.checkpoint_done = checkpoint_done;
}

bool StoredRun::WriteAgain(ServerEffects* effects) {
  if (trouble_.empty()) return false;
  under_way_ = true;
  effects->push_back(effect::WriteStore{0, revision_, writing_.record, writing_plan_});
  return true;
}

void StoredRun::Write(DecidedRun run, ServerEffects* effects) {
  under_way_ = true;
  writing_ = std::move(run);
  writing_plan_ = plan_stored_ ? nullptr : plan_;
  plan_stored_ = true;
  effects->push_back(effect::WriteStore{0, revision_, writing_.record, writing_plan_});
}

bool StoredRun::Written(const absl::StatusOr<int64_t>& revision, Time now) {
  under_way_ = false;
  if (absl::IsAborted(revision.status())) return false;
  trouble_ = std::string(revision.status().message());
  if (!revision.ok()) {
    again_ = now + kWriteAgain;
    return false;
  }
  revision_ = *revision;
  run_ = std::move(writing_);
  return true;
}

}  // namespace psgd
