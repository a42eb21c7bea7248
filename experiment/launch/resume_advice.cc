#include "experiment/launch/resume_advice.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiment/launch/shell_line.h"
#include "experiment/record/run_dir.h"
#include "server/durability/checkpoint_store.h"
#include "server/durability/journal_folder.h"

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

std::string ResumeCommand(const std::string& run_dir, const StartedAs& started) {
  std::vector<std::string> words = {"ps-run", "--resume", run_dir};
  if (started.servers_on_workers) words.push_back("--servers-on-workers");
  if (!started.etcd.empty()) words.insert(words.end(), {"--etcd", started.etcd});
  return absl::StrCat(ShellLine(words), started.command.empty() ? "" : " -- ",
                      ShellLine(started.command));
}

namespace {

std::string RecoverCommands(const std::string& run_dir, const StartedAs& started) {
  std::string commands;
  for (const std::string& server : started.servers) {
    const bool leads = commands.empty();
    std::vector<std::string> words = {"ps-server", "--recover", server};
    if (!leads) words = {"ps-server", "--join", started.run_name, "--run-dir", server};
    if (server != run_dir) words.insert(words.end(), {"--results", run_dir});
    words.insert(words.end(), {"--etcd", started.etcd});
    absl::StrAppend(&commands, "\n  ", ShellLine(words));
  }
  return absl::StrCat(
      commands, "\n  ",
      started.command.empty()
          ? ShellLine({"ps-worker", "--cpu", "--etcd", started.etcd, "--run", started.run_name})
          : absl::StrCat("PSGD_SERVER=HOST:PORT ", ShellLine(started.command)));
}

}  // namespace

std::string ResumeAdvice(const std::string& run_dir, const StartedAs& started) {
  if (!started.servers.empty()) {
    return absl::StrCat(
        "It goes on where its journals end with: ",
        started.etcd.empty() ? ResumeCommand(run_dir, started) : RecoverCommands(run_dir, started));
  }
  const auto newest = NewestCheckpoint(run_dir);
  if (!newest && !CoordinatorIsMissing(RunDir(run_dir).ServerDir())) {
    return absl::StrCat(
        "It has no checkpoint to go on from, but a journal: unless that is damaged "
        "or the run is over, it goes on with: ",
        ShellLine({"ps-server", "--recover", run_dir}), "  and workers, as ",
        started.command.empty()
            ? "ps-worker --cpu --server HOST:PORT"
            : absl::StrCat("PSGD_SERVER=HOST:PORT ", ShellLine(started.command)));
  }
  if (!newest) {
    return absl::StrCat(
        "It has no checkpoint to go on from: start anew, with checkpoints earlier than it ended, "
        "as --set durability.checkpoint=\"0.25 epochs\"");
  }
  return absl::StrFormat("Go on from checkpoint %d (epoch %.2f) with: %s", newest->id(),
                         newest->epoch_progress(), ResumeCommand(run_dir, started));
}

}  // namespace psgd
