#include "experiment/launch/resume_advice.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/shell_line.h"
#include "experiment/launch/earlier_servers.h"
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

namespace {

void AddTlsDir(const StartedAs& started, std::vector<std::string>* words) {
  if (!started.tls_dir.empty()) words->insert(words->end(), {"--tls-dir", started.tls_dir});
}

}  // namespace

std::string ResumeCommand(const std::string& run_dir, const StartedAs& started,
                          const std::string& checkpoint) {
  std::vector<std::string> words = {"ps-run", "--resume", run_dir};
  if (!checkpoint.empty()) words.insert(words.end(), {"--checkpoint", checkpoint});
  if (started.servers_on_workers) words.push_back("--servers-on-workers");
  if (!started.etcd.empty()) words.insert(words.end(), {"--etcd", started.etcd});
  if (!started.gpus.empty()) words.insert(words.end(), {"--gpu", absl::StrJoin(started.gpus, ",")});
  AddTlsDir(started, &words);
  return absl::StrCat(ShellLine(words), started.command.empty() ? "" : " -- ",
                      ShellLine(started.command));
}

namespace {

std::string WorkerCommands(const StartedAs& started) {
  const std::string times =
      started.workers > 1 ? absl::StrCat("  # ", started.workers, " workers in all") : "";
  if (!started.command.empty()) {
    const std::string tls =
        started.tls_dir.empty() ? "" : ShellLine({"PSGD_TLS_DIR=" + started.tls_dir}) + " ";
    return absl::StrCat("\n  PSGD_SERVER=HOST:PORT ", tls, ShellLine(started.command), times);
  }
  std::string commands;
  const size_t kinds = std::max<size_t>(1, started.gpus.size());
  for (size_t i = 0; i < kinds; ++i) {
    std::vector<std::string> words = {"ps-worker", "--cpu"};
    if (!started.gpus.empty()) words = {"ps-worker", "--gpu", started.gpus[i]};
    words.insert(words.end(), {"--etcd", started.etcd, "--run", started.run_name});
    AddTlsDir(started, &words);
    absl::StrAppend(&commands, "\n  ", ShellLine(words));
  }
  return absl::StrCat(commands, times);
}

std::string RecoverCommands(const std::string& run_dir, const StartedAs& started) {
  std::string commands;
  for (const std::string& server : started.servers) {
    const bool leads = commands.empty();
    std::vector<std::string> words = {"ps-server", "--recover", server};
    if (!leads) words = {"ps-server", "--join", started.run_name, "--run-dir", server};
    if (server != run_dir) words.insert(words.end(), {"--results", run_dir});
    words.insert(words.end(), {"--etcd", started.etcd});
    AddTlsDir(started, &words);
    absl::StrAppend(&commands, "\n  ", ShellLine(words));
  }
  return absl::StrCat(commands, WorkerCommands(started));
}

// Make a run without an etcd, which was asked to stop, take its last checkpoint.
std::string CheckpointCommands(const std::string& run_dir, const StartedAs& started) {
  std::vector<std::string> words = {"ps-server", "--recover", run_dir};
  AddTlsDir(started, &words);
  std::string commands = absl::StrCat("\n  ", ShellLine(words));
  for (int number = 2; number <= LastServerDir(run_dir); ++number) {
    words = {"ps-server", "--join", "HOST:PORT", "--run-dir",
             absl::StrCat(run_dir, "/server-", number)};
    AddTlsDir(started, &words);
    absl::StrAppend(&commands, "\n  ", ShellLine(words));
  }
  return commands;
}

}  // namespace

std::string ResumeAdvice(const std::string& run_dir, const StartedAs& started, bool stopped) {
  if (!started.servers.empty()) {
    return absl::StrCat(
        "It goes on where its journals end with: ",
        started.etcd.empty() ? ResumeCommand(run_dir, started) : RecoverCommands(run_dir, started));
  }
  const auto newest = NewestCheckpoint(run_dir);
  const bool has_journal = !CoordinatorIsMissing(RunDir(run_dir).ServerDir());
  if (stopped && has_journal && JournalsGoFurther(run_dir)) {
    return absl::StrCat("Its journal has what no checkpoint has. First make a checkpoint of that:",
                        CheckpointCommands(run_dir, started), "\nThen go on with:\n  ",
                        ResumeCommand(run_dir, started));
  }
  if (!newest && has_journal) {
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
