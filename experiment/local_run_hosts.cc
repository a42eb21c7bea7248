// The part of LocalRun that keeps the other servers of a run on several of them.
#include "absl/strings/str_cat.h"
#include "experiment/local_run.h"

namespace psgd {
absl::Status LocalRun::StartHosts() {
  for (int s = 1; s < options_.config.cluster().servers(); ++s) {
    PSGD_RETURN_IF_ERROR(cluster_->StartHost());
  }
  return absl::OkStatus();
}

absl::Status LocalRun::RestartHosts() {
  for (const size_t host : cluster_->TakeDeadHosts()) {
    const ChildProcess& died = cluster_->host(host);
    const bool left = died.exit_code() == kExitStopped;  // its shards went to the others first
    const bool goes_on = status_.state() == StatusReply::TRAINING || status_.state() == StatusReply::WAITING ||
                         status_.state() == StatusReply::DRAINING;
    if (left || !goes_on) continue;
    const std::string how = absl::StrCat(died.name(), " ", died.HowItEnded());
    if (options_.config.durability().acknowledge() == DurabilityConfig::MEMORY) {
      return Failed(absl::StrCat(how, ", and its shards with it (durability.acknowledge: memory)"));
    }
    display_.Note(absl::StrCat(how, "; it is started again, with the journals of its shards"),
                  /*important=*/true);
    const absl::Status started = cluster_->RestartHost(host);
    if (started.ok()) {
      fruitless_restarts_ = 0;
    } else if (cluster_->server().Running() && ++fruitless_restarts_ > kMostRecoveries) {
      return Failed(std::string(started.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace psgd
