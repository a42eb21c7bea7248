#include "server/cluster/stored_run.h"

#include <utility>

namespace psgd {
namespace {

constexpr Duration kWriteAgain = std::chrono::milliseconds(50);

}  // namespace

bool StoredRun::WriteAgain(ServerEffects* effects) {
  if (trouble_.empty()) return false;
  under_way_ = true;
  effects->push_back(effect::WriteStore{0, revision_, writing_.record, plan_});
  return true;
}

void StoredRun::Write(DecidedRun run, std::shared_ptr<const RunPlan> plan, ServerEffects* effects) {
  under_way_ = true;
  writing_ = std::move(run);
  plan_ = std::move(plan);
  effects->push_back(effect::WriteStore{0, revision_, writing_.record, plan_});
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
