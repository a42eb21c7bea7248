#include "experiment/resume_advice.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiment/run_dir.h"
#include "server/checkpoint_store.h"

namespace psgd {

std::string ResumeAdvice(const std::string& run_dir) {
  std::vector<std::string> notes;
  const auto checkpoints = CheckpointStore(RunDir(run_dir).ServerDir()).List(&notes);
  if (!checkpoints.ok() || checkpoints->empty()) {
    return absl::StrCat(
        "It has no checkpoint to go on from: start anew, with checkpoints earlier than it ended, as "
        "--set durability.checkpoint=\"0.25 epochs\"");
  }
  return absl::StrFormat("Go on from checkpoint %d (epoch %.2f) with: ps-run --resume %s",
                         checkpoints->front().id(), checkpoints->front().epoch_progress(), run_dir);
}

}  // namespace psgd
