#include "experiment/launch/resume_advice.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiment/launch/shell_line.h"
#include "experiment/record/run_dir.h"
#include "server/durability/checkpoint_store.h"

namespace psgd {

std::optional<CheckpointManifest> NewestCheckpoint(const std::string& run_dir) {
  std::vector<std::string> notes;
  const auto checkpoints = CheckpointStore(RunDir(run_dir).ServerDir()).List(&notes);
  if (!checkpoints.ok() || checkpoints->empty()) return std::nullopt;
  return checkpoints->front();
}

std::optional<CheckpointManifest> ChosenCheckpoint(const std::string& run_dir,
                                                   const std::string& id_or_name) {
  if (id_or_name.empty()) return NewestCheckpoint(run_dir);
  const CheckpointStore store(RunDir(run_dir).ServerDir());
  const auto id = store.Find(id_or_name);
  std::vector<std::string> notes;
  const auto checkpoints = store.List(&notes);
  if (!id.ok() || !checkpoints.ok()) return std::nullopt;
  for (const CheckpointManifest& checkpoint : *checkpoints) {
    if (checkpoint.id() == *id) return checkpoint;
  }
  return std::nullopt;
}

bool HasCheckpoint(const std::string& run_dir) { return NewestCheckpoint(run_dir).has_value(); }

std::string ResumeCommand(const std::string& run_dir, const std::vector<std::string>& command) {
  return absl::StrCat(ShellLine({"ps-run", "--resume", run_dir}), command.empty() ? "" : " -- ",
                      ShellLine(command));
}

std::string ResumeAdvice(const std::string& run_dir, const std::vector<std::string>& command) {
  const auto newest = NewestCheckpoint(run_dir);
  if (!newest) {
    return absl::StrCat(
        "It has no checkpoint to go on from: start anew, with checkpoints earlier than it ended, "
        "as --set durability.checkpoint=\"0.25 epochs\"");
  }
  return absl::StrFormat("Go on from checkpoint %d (epoch %.2f) with: %s", newest->id(),
                         newest->epoch_progress(), ResumeCommand(run_dir, command));
}

}  // namespace psgd
