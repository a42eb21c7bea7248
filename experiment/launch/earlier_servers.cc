#include "experiment/launch/earlier_servers.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "experiment/launch/run_dir_status.h"
#include "experiment/record/run_dir.h"
#include "optimizers/diverged.h"
#include "server/durability/checkpoint_files.h"
#include "server/durability/journal_folder.h"
#include "server/durability/server_record.h"

namespace psgd {
namespace {

std::string DirOf(const std::string& run_dir, int number) {
  return number == 1 ? run_dir : absl::StrCat(run_dir, "/server-", number);
}

bool HasShards(const std::string& server_dir) {
  std::error_code failed;
  std::filesystem::directory_iterator at(JournalFolder(server_dir, ""), failed), end;
  for (; !failed && at != end; at.increment(failed)) {
    if (absl::StartsWith(at->path().filename().string(), "shard-")) return true;
  }
  return false;
}

}  // namespace

int LastServerDir(const std::string& run_dir) {
  constexpr absl::string_view kPrefix = "server-";
  int last = 1;
  std::error_code failed;
  std::filesystem::directory_iterator at(run_dir, failed), end;
  for (; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    int number = 0;
    if (absl::StartsWith(name, kPrefix) && absl::SimpleAtoi(name.substr(kPrefix.size()), &number))
      last = std::max(last, number);
  }
  return last;
}

std::vector<std::string> EarlierServers(const std::string& run_dir, const RunRecord& record,
                                        std::string* why) {
  std::vector<std::string> dirs;
  for (int number = 1; number <= LastServerDir(run_dir); ++number) {
    const bool first = number == 1;
    const std::string dir = DirOf(run_dir, number);
    const auto found = LoadServerRecord(RunDir(dir).ServerDir());
    if (!found.ok()) absl::StrAppend(why, "; ", found.status().message());
    if (!found.ok() || found->run_id() != record.run_id()) continue;
    for (const RunServer& server : record.servers()) {
      if (server.identity() != found->identity()) continue;
      if (server.server() == record.leader()) {
        dirs.insert(dirs.begin(), dir);
      } else if (!first) {  // else another server took over, and writes to that directory now
        dirs.push_back(dir);
      }
    }
  }
  return dirs;
}

ServersThere ServersIn(const std::string& run_dir) {
  constexpr size_t kLongestPath = 4096;
  ServersThere there;
  const auto leader = ReadSmallFile(RunDir(run_dir).LeaderFile(), kLongestPath);
  const std::string noted(leader.ok() ? absl::StripAsciiWhitespace(*leader) : "");
  for (int number = 2; number <= LastServerDir(run_dir); ++number) {
    const std::string name = absl::StrCat("server-", number);
    if (!FileExists(JournalFolder(RunDir(DirOf(run_dir, number)).ServerDir(), ""))) continue;
    there.others.push_back(name);
    if (name == noted) there.leader = name;
  }
  // A run that went back to a checkpoint with fewer servers left folders of its earlier ones.
  const std::string first =
      there.leader.empty() ? run_dir : absl::StrCat(run_dir, "/", there.leader);
  const auto run = LoadServerRecord(RunDir(first).ServerDir());
  if (!run.ok()) return there;
  std::erase_if(there.others, [&](const std::string& name) {
    const auto record = LoadServerRecord(RunDir(absl::StrCat(run_dir, "/", name)).ServerDir());
    return record.ok() && record->run_id() != run->run_id();
  });
  return there;
}

bool JournalsGoFurther(const std::string& run_dir) {
  bool any = false;
  for (int number = 1; number <= LastServerDir(run_dir); ++number)
    any = any || HasShards(RunDir(DirOf(run_dir, number)).ServerDir());
  if (!any) return false;
  const auto status = ReadRunDirStatus(run_dir);
  if (!status.ok() || !status->summary) return true;  // it was killed
  // The journals of a run that failed in this way cannot go on.
  const Summary& summary = *status->summary;
  if (SaysDiverged(summary.error) || SaysDiverged(summary.note) || summary.failed_checkpoint)
    return false;
  // A run that stops takes a checkpoint of its end.
  constexpr double kSame = 1e-3;
  const auto& checkpoints = status->checkpoints;
  const double kept = checkpoints.empty() ? 0 : checkpoints.front().epoch_progress();
  const double progress =
      status->progress.is_object() ? NumberIn(status->progress, "epoch") : summary.epochs;
  return std::max(summary.epochs, progress) > kept + kSame;
}

}  // namespace psgd
