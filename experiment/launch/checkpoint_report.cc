#include "experiment/launch/checkpoint_report.h"

#include <ctime>
#include <filesystem>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/units.h"
#include "experiment/record/readable.h"
#include "experiment/record/run_dir.h"
#include "server/durability/best_checkpoint.h"

namespace psgd {
absl::StatusOr<CheckpointStore> CheckpointsOf(const std::string& run_dir) {
  const RunDir dir(run_dir);
  std::error_code error;
  if (std::filesystem::exists(dir.ConfigFile(), error)) return CheckpointStore(dir.ServerDir());
  return NotFoundError(run_dir,
                       " is not a run directory: it has no config.yaml; check its spelling");
}

uint64_t BytesOf(const CheckpointManifest& manifest) {
  uint64_t bytes = 0;
  for (const ShardReceipt& shard : manifest.shards()) bytes += shard.bytes();
  return bytes;
}

CheckpointInfo InfoOf(const CheckpointManifest& manifest) {
  CheckpointInfo info;
  info.set_id(manifest.id());
  info.set_name(manifest.name());
  info.set_epoch(manifest.epoch_progress());
  info.set_clock(manifest.clock());
  info.set_bytes(BytesOf(manifest));
  info.set_age_seconds(static_cast<double>(std::time(nullptr) - manifest.unix_seconds()));
  return info;
}

Record CheckpointRecord(const CheckpointInfo& info) {
  return {{"id", info.id()},       {"name", info.name()},
          {"epoch", info.epoch()}, {"clock", info.clock()},
          {"bytes", info.bytes()}, {"age_seconds", info.age_seconds()},
          {"best", info.best()},   {"given_up", info.given_up()}};
}

std::string NamesOf(const CheckpointInfo& info) {
  if (info.given_up())
    return absl::StrCat(info.name(), info.name().empty() ? "" : ", ", "given up");
  if (!info.best()) return NameOrDash(info.name());
  return info.name().empty() ? kBest : absl::StrCat(info.name(), ", ", kBest);
}

absl::StatusOr<std::vector<CheckpointInfo>> CheckpointsIn(const std::string& run_dir,
                                                          std::vector<std::string>* notes) {
  PSGD_ASSIGN_OR_RETURN(const CheckpointStore store, CheckpointsOf(run_dir));
  PSGD_ASSIGN_OR_RETURN(const auto manifests, store.List(notes));
  return InfosOf(manifests);
}

std::vector<CheckpointInfo> InfosOf(const std::vector<CheckpointManifest>& manifests) {
  const auto best = KeepsBest(manifests) ? BestOf(manifests) : std::nullopt;
  const std::set<uint64_t> given_up = GivenUp(manifests);
  std::vector<CheckpointInfo> checkpoints;
  for (const CheckpointManifest& manifest : manifests) {
    checkpoints.push_back(InfoOf(manifest));
    checkpoints.back().set_best(best == manifest.id());
    checkpoints.back().set_given_up(given_up.contains(manifest.id()));
  }
  return checkpoints;
}

absl::StatusOr<std::string> PruneCheckpoints(const std::string& run_dir, int keep, bool json) {
  PSGD_ASSIGN_OR_RETURN(const CheckpointStore store, CheckpointsOf(run_dir));
  PSGD_ASSIGN_OR_RETURN(const RunDir held, RunDir::Take(run_dir));
  PSGD_ASSIGN_OR_RETURN(const std::vector<uint64_t> removed, store.Prune(keep));
  if (json) return Record{{"removed", removed}}.dump() + "\n";
  if (removed.empty()) return "nothing to remove\n";
  return absl::StrCat("removed checkpoints ", absl::StrJoin(removed, ", "), "\n");
}

TextTable CheckpointTable(const std::vector<CheckpointInfo>& checkpoints) {
  TextTable table({"checkpoint", "name", "epoch", "clock", "size", "age"});
  for (const CheckpointInfo& info : checkpoints) {
    table.Add({absl::StrCat(info.id()), NamesOf(info), absl::StrFormat("%.2f", info.epoch()),
               absl::StrCat(info.clock()), HumanBytes(static_cast<double>(info.bytes())),
               ReadableTime(info.age_seconds())});
  }
  return table;
}

std::string CheckpointList(const std::vector<CheckpointInfo>& checkpoints, bool json) {
  if (json) {
    Record list = Record::array();
    for (const CheckpointInfo& info : checkpoints) list.push_back(CheckpointRecord(info));
    return Record{{"checkpoints", std::move(list)}}.dump(2) + "\n";
  }
  const TextTable table = CheckpointTable(checkpoints);
  return table.empty() ? "no checkpoints\n" : table.Text();
}

}  // namespace psgd
