#include "server/durability/journal_folder.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/files.h"
#include "common/shell_line.h"
#include "server/durability/checkpoint_files.h"
#include "server/durability/rocks_journal.h"
#include "server/durability/server_record.h"

namespace psgd {
namespace {

bool HasImage(const std::string& shard_folder) {
  const auto images = FolderIds(shard_folder, "image");
  return images.ok() && !images->empty();
}

// The folders that have an image, also those that lie aside, and their shards.
std::map<std::string, uint32_t> ShardsWithImage(const std::string& folder) {
  std::map<std::string, uint32_t> shards;
  std::error_code failed;
  std::filesystem::directory_iterator at(folder, failed);
  for (; !failed && at != std::filesystem::directory_iterator(); at.increment(failed)) {
    if (!HasImage(at->path().string())) continue;
    absl::string_view number(at->path().filename().native());
    absl::ConsumePrefix(&number, "shard-");
    absl::ConsumeSuffix(&number, kAsideSuffix);
    uint32_t shard = 0;
    (void)absl::SimpleAtoi(number, &shard);  // a check of another shard's journal finds damage
    shards[at->path().string()] = shard;
  }
  return shards;
}

// Whether a worker has trained with the shard, as far as its journal can be read.
bool HasTrained(const std::string& folder, uint32_t shard) {
  const JournalReport report = RocksJournal::Check({.folder = folder, .shard = shard});
  if (!report.recovers) return !report.empty && !report.unfinished;
  return std::ranges::any_of(report.clocks, [](const MemberClock& member) {
    return member.clock() > 0 || member.pushed() > 0;
  });
}

}  // namespace

std::string JournalFolder(const std::string& server_dir, const std::string& part) {
  return absl::StrCat(server_dir, "/journal/", part);
}

absl::Status MakeJournalFolder(const std::string& server_dir, const Log& log) {
  const std::string folder = JournalFolder(server_dir, "");
  if (FileExists(folder)) return CloseJournalFolder(server_dir, log);
  PSGD_RETURN_IF_ERROR(MakeFolders(folder));
  return CloseJournalFolder(server_dir, NullLog());
}

absl::Status CloseJournalFolder(const std::string& server_dir, const Log& log) {
  using std::filesystem::perms;
  const std::string folder = JournalFolder(server_dir, "");
  std::error_code failed;
  const perms found = std::filesystem::status(folder, failed).permissions();
  if (!failed && (found & perms::mask) == perms::owner_all) return absl::OkStatus();
  if (!failed) std::filesystem::permissions(folder, perms::owner_all, failed);
  if (failed) return FileError("close to others", folder, failed.value());
  if ((found & (perms::group_all | perms::others_all)) != perms::none) {
    log->warn(
        "{} was open to others (mode {:o}), and is closed to them now (700): it holds the run's "
        "updates and, of a secured run, its passes; what they did with them meanwhile, nobody "
        "knows",
        folder, static_cast<unsigned>(found & perms::mask));
  }
  return absl::OkStatus();
}

std::vector<std::string> StrayFolders(const std::string& shard_folder) {
  std::vector<std::string> strays;
  std::error_code failed;
  std::filesystem::directory_iterator at(std::filesystem::path(shard_folder).parent_path(), failed);
  for (; !failed && at != std::filesystem::directory_iterator(); at.increment(failed)) {
    const std::string name = at->path().filename();
    absl::string_view number = name;
    absl::ConsumeSuffix(&number, kGoneSuffix);
    absl::ConsumeSuffix(&number, kAsideSuffix);
    uint32_t shard = 0;
    const bool of_shard = absl::ConsumePrefix(&number, "shard-") &&
                          absl::SimpleAtoi(number, &shard) && number == absl::StrCat(shard);
    if (!of_shard && name != "coordinator" && at->is_directory(failed)) strays.push_back(name);
  }
  std::ranges::sort(strays);
  return strays;
}

absl::Status CheckShardThere(const std::string& shard_folder) {
  const std::string log = shard_folder + "/log";
  if (FileExists(shard_folder) && !FileExists(log + "/CURRENT") && !HasImage(shard_folder) &&
      !FileExists(shard_folder + kMachineStartFile)) {
    return NotFoundError("the journal in ", shard_folder,
                         " was being created, and holds nothing yet");
  }
  std::error_code failed;  // an error here says nothing; opening the database reports why
  if (std::filesystem::exists(log, failed) || failed) return absl::OkStatus();
  if (FileExists(shard_folder)) {
    return DataLossError(log,
                         " is missing, with all the steps of the shard; was only a part copied? "
                         "Copy it from where the rest is from");
  }
  const std::vector<std::string> strays = StrayFolders(shard_folder);
  const std::string name = std::filesystem::path(shard_folder).filename();
  return DataLossError("the folder ", shard_folder, " is missing; ",
                       strays.empty()
                           ? "was it deleted, or left out when the run directory was copied? Copy "
                             "it from where the rest is from"
                           : absl::StrCat("beside it lies ", absl::StrJoin(strays, ", "),
                                          ", which nothing makes use of: was it renamed when it "
                                          "was copied? Rename what is the shard's to ",
                                          name));
}

bool CoordinatorIsMissing(const std::string& server_dir) {
  std::error_code failed;  // an error here says nothing; opening the database reports why
  return !std::filesystem::exists(JournalFolder(server_dir, "coordinator") + "/CURRENT", failed) &&
         !failed;
}

std::string EtcdFolder(const std::string& server_dir) { return server_dir + "/etcd"; }
std::string EtcdLog(const std::string& folder) { return folder + ".log"; }

bool HasEtcdData(const std::string& server_dir) {
  return FileExists(EtcdFolder(server_dir) + "/member");
}

std::string WhereRecordIs(const std::string& server_dir) {
  const std::filesystem::path run = std::filesystem::path(server_dir).parent_path();
  // ps-run's further servers are in folders of the run directory.
  for (const std::filesystem::path& whole : {run, run.parent_path()}) {
    const std::string dir = (whole / "server").string();
    if (!HasEtcdData(dir)) continue;
    return absl::StrCat(
        "the run's record is in the data of its own etcd, ", EtcdFolder(dir),
        "; the run goes on with:  ", ShellLine({"ps-run", "--resume", whole.string()}));
  }
  return absl::StrCat(
      "the run's record is not in ", run.string(),
      ". With the etcd that its servers used, they go on:  ",
      ShellLine({"ps-server", "--recover", run.string()}),
      " --etcd HOST:PORT  and each other:  ps-server --join NAME --run-dir DIR --etcd HOST:PORT  "
      "(without etcd, a server that joined:  --join HOST:PORT ",
      ShellLine({"--run-dir", run.string()}),
      "). If ps-run of an earlier version ran that etcd, move its data, /tmp/psgd-etcd-*/data, to ",
      EtcdFolder(server_dir), ", and say  ", ShellLine({"ps-run", "--resume", run.string()}));
}

absl::Status NoCoordinator(int64_t revision, const std::string& server_dir) {
  const auto checkpoints = FolderIds(server_dir, "checkpoint");
  const bool any = checkpoints.ok() && !checkpoints->empty();
  const auto shards = ShardsWithImage(JournalFolder(server_dir, ""));
  // The shards have their first images before the record has its plan. But a record whose end is
  // cut off may also lack the plan.
  const bool begun =
      revision == 0 ? any || !shards.empty() : std::ranges::any_of(shards, [](const auto& shard) {
        return HasTrained(shard.first, shard.second);
      });
  if (!begun) {
    return NotFoundError(
        "training had not begun, so there is nothing to go on from: ",
        any ? "go on from the last checkpoint with ps-run --resume" : "start the run again");
  }
  if (const auto server = LoadServerRecord(server_dir); server.ok() && !server->keeps_run()) {
    return FailedPreconditionError(
        WhereRecordIs(server_dir),
        any ? ". Or go back to the last checkpoint with ps-run --resume" : "");
  }
  return DataLossError(JournalFolder(server_dir, "coordinator"),
                       " holds no record of the coordinator, and training had begun: ",
                       revision != 0 ? "its shards have updates"
                       : any         ? "the run has checkpoints"
                                     : "its shards have images",
                       ". Was it deleted, or left out when the run directory was copied? Copy it "
                       "from where the rest is from, or ",
                       any ? "go on from the last checkpoint with ps-run --resume"
                           : "start the run again: there is no checkpoint");
}

}  // namespace psgd
