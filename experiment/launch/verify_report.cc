#include "experiment/launch/verify_report.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/files.h"
#include "common/shell_line.h"
#include "common/units.h"
#include "experiment/config/config_yaml.h"
#include "experiment/launch/checkpoint_report.h"
#include "experiment/launch/earlier_servers.h"
#include "experiment/record/readable.h"
#include "experiment/record/records.h"
#include "experiment/record/run_dir.h"
#include "proto/has_journal.h"
#include "server/cluster/copies.h"
#include "server/cluster/copy_place.h"
#include "server/durability/checkpoint_files.h"
#include "server/durability/journal_folder.h"
#include "server/durability/rocks_run_store.h"
#include "server/durability/server_record.h"
#include "server/shard/earlier_rules.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

bool IsUnread(const CheckedCheckpoint& checkpoint) {
  return absl::IsPermissionDenied(checkpoint.status);
}
bool IsUnread(const CheckedJournal& journal) { return !journal.unread.empty(); }

bool IsDamaged(const CheckedCheckpoint& checkpoint) {
  return checkpoint.sealed && !checkpoint.status.ok() && !IsUnread(checkpoint);
}
bool IsDamaged(const CheckedJournal& journal) { return !journal.report.damage.empty(); }

template <typename Checked>
auto Damaged(const std::vector<Checked>& all) {
  return std::count_if(all.begin(), all.end(), [](const auto& one) { return IsDamaged(one); });
}

template <typename Checked>
auto Unread(const std::vector<Checked>& all) {
  return std::count_if(all.begin(), all.end(), [](const auto& one) { return IsUnread(one); });
}

auto Sound(const std::vector<CheckedCheckpoint>& all) {
  return std::count_if(all.begin(), all.end(), [](const auto& one) { return one.status.ok(); });
}

std::string StateOf(const CheckedCheckpoint& checkpoint) {
  if (IsUnread(checkpoint)) return "could not be read";
  return !checkpoint.sealed ? "incomplete" : checkpoint.status.ok() ? "sound" : "damaged";
}
std::string StateOf(const CheckedJournal& journal) {
  if (journal.server != 0) return absl::StrCat("on server ", journal.server);
  if (IsUnread(journal)) return "could not be read";
  if (journal.report.misplaced) return "misplaced";
  if (journal.report.empty) return "holds nothing yet";
  return IsDamaged(journal) ? "damaged" : "sound";
}

// OK: all files below the folder can be opened, or there are none. Otherwise PERMISSION_DENIED,
// whatever the cause, because the contents are unknown.
absl::Status CheckReadable(const std::string& folder) {
  const auto unread = [](const std::string& path, int error) {
    return absl::PermissionDeniedError(FileError("read", path, error).message());
  };
  std::error_code error;
  if (!fs::exists(folder, error)) return error ? unread(folder, error.value()) : absl::OkStatus();
  // A recursive iterator would not say which folder it could not enter.
  fs::directory_iterator at(folder, error);
  if (error) return unread(folder, error.value());
  for (; at != fs::directory_iterator(); at.increment(error)) {
    const std::string path = at->path().string();
    const bool is_folder = at->is_directory(error);
    if (error) return unread(path, error.value());
    if (is_folder) {
      PSGD_RETURN_IF_ERROR(CheckReadable(path));
    } else if (std::FILE* const file = std::fopen(path.c_str(), "rb")) {
      std::fclose(file);
    } else {
      return unread(path, errno);
    }
  }
  return error ? unread(folder, error.value()) : absl::OkStatus();
}

CheckedJournal CheckJournal(std::string part, const std::string& folder, uint32_t shard) {
  CheckedJournal checked{std::move(part), {}};
  RocksJournalOptions options;
  options.folder = folder;
  options.shard = shard;
  checked.unread = std::string(CheckReadable(options.folder).message());
  if (checked.unread.empty()) checked.report = RocksJournal::Check(std::move(options));
  return checked;
}

// What people call the part.
std::string NameOf(const CheckedJournal& journal) {
  return journal.folder.empty() ? journal.part : absl::StrCat(journal.folder, ": ", journal.part);
}

std::string ShardFolder(const std::string& folder, uint32_t shard) {
  return absl::StrCat(folder, "/shard-", shard);
}

bool HoldsShard(const std::string& folder, uint32_t shard) {
  return FileExists(ShardFolder(folder, shard)) ||
         FileExists(ShardFolder(folder, shard) + kAsideSuffix);
}

// Checks the journal that a server goes on from.
CheckedJournal CheckShard(const std::string& folder, uint32_t shard) {
  const std::string place = ShardFolder(folder, shard);
  const std::string part = absl::StrCat("shard ", shard);
  CheckedJournal checked = CheckJournal(part, place, shard);
  const JournalReport& report = checked.report;
  const bool finished =
      IsUnread(checked) || (FileExists(place) && !report.empty && !report.unfinished);
  if (SpotThatCounts(finished, FileExists(place + kAsideSuffix)) == CopySpot::kPlace)
    return checked;
  return CheckJournal(absl::StrCat(part, kAsideSuffix), place + kAsideSuffix, shard);
}

// Checks the shards in the folder, if no record says which shards should be there.
void CheckShardsThere(const std::string& folder, VerifiedRun* run) {
  for (uint32_t s = 0; HoldsShard(folder, s); ++s) run->journal.push_back(CheckShard(folder, s));
}

// NOT_FOUND: training had not begun.
absl::StatusOr<RunRecord> CheckRunRecord(const std::string& server_dir,
                                         std::vector<std::string>* damage) {
  if (CoordinatorIsMissing(server_dir)) return NoCoordinator(0, server_dir);
  PSGD_ASSIGN_OR_RETURN(const RunStore::Held held,
                        RocksRunStore::Check(JournalFolder(server_dir, "coordinator"), damage));
  if (!held.record.has_plan()) return NoCoordinator(held.revision, server_dir);
  return held.record;
}

// Checks that the journal has everything that the run's record knows of.
void CheckEnd(const ShardCopies& copies, uint32_t shard, CheckedJournal* checked) {
  JournalReport& report = checked->report;
  if (!report.recovers) return;  // its end says nothing then
  uint64_t last = report.last;
  for (const uint64_t image : report.images) last = std::max(last, image);
  const absl::Status whole = CheckJournalEnd(copies, shard, last);
  if (whole.ok()) return;
  report.damage.emplace_back(whole.message());
  report.recovers = false;
}

// Compares the journals of the shards that this server leads.
void CompareJournals(const RunRecord& record, uint64_t most_ahead, VerifiedRun* run) {
  std::vector<ReadJournal> journals;
  std::map<uint32_t, JournalReport*> reports;
  size_t at = run->journal.size() - static_cast<size_t>(record.shards_size());
  for (uint32_t s = 0; at < run->journal.size(); ++s, ++at) {
    JournalReport& report = run->journal[at].report;
    if (record.shards(static_cast<int>(s)).leader() != record.leader() || !report.recovers)
      continue;
    journals.push_back({s, &report.clocks});
    reports[s] = &report;
  }
  for (const auto& [shard, report] : reports) {
    const absl::Status agrees = CompareJournal(journals, shard, most_ahead);
    if (agrees.ok()) continue;
    report->damage.emplace_back(agrees.message());
    report->recovers = false;
  }
}

// Adds an entry only if the server's record is damaged or unreadable.
void CheckServerRecord(const std::string& server_dir, VerifiedRun* run) {
  const auto record = LoadServerRecord(server_dir);
  if (record.ok()) return;
  CheckedJournal damaged{"server", {}};
  const bool unread = absl::IsPermissionDenied(record.status());
  (unread ? damaged.unread : damaged.report.damage.emplace_back()) =
      std::string(record.status().message());
  run->journal.push_back(std::move(damaged));
}

void VerifyLeadersJournal(const std::string& server_dir, const absl::StatusOr<Config>& config,
                          VerifiedRun* run) {
  const std::string folder = server_dir + "/journal";
  CheckedJournal coordinator{"coordinator", {}};
  coordinator.unread = std::string(CheckReadable(folder + "/coordinator").message());
  if (IsUnread(coordinator)) {
    run->journal.push_back(std::move(coordinator));
    return CheckShardsThere(folder, run);
  }
  const absl::StatusOr<RunRecord> record = CheckRunRecord(server_dir, &coordinator.report.damage);
  coordinator.report.recovers = record.ok() && coordinator.report.damage.empty();
  if (absl::IsNotFound(record.status()) && coordinator.report.damage.empty())
    return;  // training had not begun
  if (!record.ok()) {
    coordinator.report.damage.emplace_back(record.status().message());
    run->journal.push_back(std::move(coordinator));
    return CheckShardsThere(folder, run);
  }
  run->journal.push_back(std::move(coordinator));
  CheckServerRecord(server_dir, run);
  for (int s = 0; s < record->shards_size(); ++s) {
    const ShardCopies& copies = record->shards(s);
    if (!HoldsCopy(copies, record->leader())) {
      run->journal.push_back({absl::StrCat("shard ", s), {}, copies.leader()});
      continue;
    }
    run->journal.push_back(CheckShard(folder, static_cast<uint32_t>(s)));
    if (copies.leader() == record->leader())
      CheckEnd(copies, static_cast<uint32_t>(s), &run->journal.back());
  }
  if (config.ok()) CompareJournals(*record, MostClocksAhead(*config), run);
}

// Checks a server that does not keep the run's record and may hold any shards.
// `successor`: the server that took over from it; empty: none did.
absl::Status VerifyJoinedJournal(const std::string& run_dir, const std::string& folder,
                                 const std::string& successor, VerifiedRun* run) {
  PSGD_ASSIGN_OR_RETURN(const Config config, LoadConfig(RunDir(run_dir).ConfigFile()));
  if (!HasJournal(config)) {
    run->journal_note =
        absl::StrCat(run->own_etcd ? "the run" : "this server joined the run, which",
                     " keeps no journal (durability.acknowledge: memory)");
    return absl::OkStatus();
  }
  const std::string server_dir = RunDir(run_dir).ServerDir();
  if (successor.empty()) {
    CheckServerRecord(server_dir, run);
    for (uint32_t s = 0; s < static_cast<uint32_t>(config.cluster().shards()); ++s) {
      if (HoldsShard(folder, s)) run->journal.push_back(CheckShard(folder, s));
    }
  }
  const bool killed = !FileExists(RunDir(run_dir).SummaryFile());
  run->record_gone = run->own_etcd && !HasEtcdData(server_dir);
  if (!run->record_gone && (run->own_etcd || (killed && config.cluster().copies() > 1)))
    run->record_note = WhereRecordIs(server_dir);
  if (!successor.empty()) {
    run->journal_note =
        absl::StrCat(successor, " took over from the server of ", run_dir,
                     ", so the journal that this one left was not looked at: ", folder);
  } else if (run->journal.empty()) {
    run->journal_note = "this server joined the run and holds no shard of it";
  }
  return absl::OkStatus();
}

// The shards in a journal, also those that are only aside.
std::set<uint32_t> ShardsThere(const std::string& folder) {
  std::set<uint32_t> shards;
  std::error_code error;  // CheckReadable reports it
  fs::directory_iterator at(folder, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    absl::string_view number = name;
    uint32_t shard = 0;
    if (!absl::ConsumePrefix(&number, "shard-")) continue;
    absl::ConsumeSuffix(&number, kAsideSuffix);
    if (absl::SimpleAtoi(number, &shard)) shards.insert(shard);
  }
  return shards;
}

// Checks a further server of ps-run, whose directory is `name` in the run directory.
void VerifyServerInside(const std::string& run_dir, const std::string& name, VerifiedRun* run) {
  const std::string dir = absl::StrCat(run_dir, "/", name);
  const std::string server_dir = RunDir(dir).ServerDir();
  const std::string folder = server_dir + "/journal";
  const size_t before = run->journal.size();
  const auto held = RunDir::Take(dir);
  const absl::Status readable = CheckReadable(folder);
  if (!held.ok()) {
    absl::StrAppend(&run->journal_note, run->journal_note.empty() ? "" : "\n", "the journal of ",
                    name, " was not looked at: ", std::string(held.status().message()));
  } else if (const auto shards = ShardsThere(folder); shards.empty() && !readable.ok()) {
    run->journal.push_back({"server", {}, 0, std::string(readable.message())});
  } else if (!shards.empty()) {  // otherwise it held none, or died as it joined
    CheckServerRecord(server_dir, run);
    for (const uint32_t shard : shards) run->journal.push_back(CheckShard(folder, shard));
  }
  for (size_t at = before; at < run->journal.size(); ++at) run->journal[at].folder = name;
}

// The directories of the servers whose journals are damaged.
std::vector<std::string> DamagedDirs(const std::string& run_dir, const VerifiedRun& run) {
  std::vector<std::string> dirs;
  for (const CheckedJournal& part : run.journal) {
    const std::string dir = part.folder.empty() ? run_dir : absl::StrCat(run_dir, "/", part.folder);
    if (IsDamaged(part) && (dirs.empty() || dirs.back() != dir)) dirs.push_back(dir);
  }
  return dirs;
}

Record RecordOf(const CheckedCheckpoint& checkpoint) {
  Record record = checkpoint.manifest ? CheckpointRecord(InfoOf(*checkpoint.manifest))
                                      : Record{{"id", checkpoint.id}};
  record["state"] = StateOf(checkpoint);
  record["problem"] = std::string(checkpoint.status.message());
  return record;
}

Record RecordOf(const CheckedJournal& journal) {
  const JournalReport& report = journal.report;
  Record record{{"part", journal.part}, {"state", StateOf(journal)}};
  if (!journal.folder.empty()) record["folder"] = journal.folder;
  if (journal.server != 0) {
    record["server"] = journal.server;
  } else if (IsUnread(journal)) {
    record["problems"] = {journal.unread};
  } else {
    record.update({{"images", report.images},
                   {"first_entry", report.first},
                   {"last_entry", report.last},
                   {"recovers", report.recovers},
                   {"problems", report.damage}});
  }
  return record;
}

template <typename Checked>
Record ListOf(const std::vector<Checked>& all) {
  Record list = Record::array();
  for (const Checked& one : all) list.push_back(RecordOf(one));
  return list;
}

std::string CheckpointsText(const std::vector<CheckedCheckpoint>& checkpoints) {
  TextTable table({"checkpoint", "name", "epoch", "size", "state"});
  std::string wrong;
  for (const CheckedCheckpoint& checkpoint : checkpoints) {
    const bool known = checkpoint.manifest.has_value();
    const CheckpointInfo info = known ? InfoOf(*checkpoint.manifest) : CheckpointInfo();
    table.Add({absl::StrCat(checkpoint.id), NameOrDash(info.name()),
               known ? absl::StrFormat("%.2f", info.epoch()) : "-",
               known ? HumanBytes(static_cast<double>(info.bytes())) : "-", StateOf(checkpoint)});
    if (checkpoint.status.ok()) continue;
    absl::StrAppend(&wrong, "checkpoint ", checkpoint.id, ": ",
                    std::string(checkpoint.status.message()), "\n");
  }
  return table.empty() ? "" : absl::StrCat(table.Text(), wrong);
}

std::string JournalText(const std::vector<CheckedJournal>& journal) {
  TextTable table({"journal", "images at", "entries", "state"});
  std::string wrong;
  for (const CheckedJournal& part : journal) {
    const JournalReport& report = part.report;
    table.Add(
        {NameOf(part), NameOrDash(absl::StrJoin(report.images, ", ")),
         report.last == 0 ? "-" : absl::StrCat(report.first, " to ", report.last),
         IsDamaged(part) && report.recovers ? "damaged, not where it matters" : StateOf(part)});
    if (IsUnread(part)) absl::StrAppend(&wrong, NameOf(part), ": ", part.unread, "\n");
    for (const std::string& damage : report.damage) {
      absl::StrAppend(&wrong, NameOf(part), ": ", damage, "\n");
    }
  }
  return table.empty() ? "" : absl::StrCat("\n", table.Text(), wrong);
}

// A server refuses entries of which it would make other weights.
void CheckRules(const Config& config, VerifiedRun* run) {
  const absl::Status same = CheckEarlierRules(config);
  if (same.ok()) return;
  for (CheckedJournal& checked : run->journal) {
    JournalReport& report = checked.report;
    if (report.earlier_rules == 0) continue;
    report.damage.push_back(absl::StrCat("entry ", report.earlier_rules, " ", same.message()));
    report.recovers = false;
  }
}

}  // namespace

absl::StatusOr<VerifiedRun> VerifyRun(const std::string& run_dir) {
  PSGD_ASSIGN_OR_RETURN(const CheckpointStore store, CheckpointsOf(run_dir));
  VerifiedRun run;
  PSGD_ASSIGN_OR_RETURN(run.checkpoints, store.Verify());
  for (CheckedCheckpoint& checkpoint : run.checkpoints) {
    if (checkpoint.status.ok()) continue;
    const absl::Status readable = CheckReadable(CheckpointFolder(store.root(), checkpoint.id));
    if (!readable.ok()) checkpoint.status = readable;
  }
  const std::string folder = store.root() + "/journal";
  const ServersThere servers = ServersIn(run_dir);
  const bool has_own = FileExists(folder);
  if (!has_own && servers.others.empty()) return run;
  const auto server = LoadServerRecord(store.root());
  run.joined = !servers.leader.empty() ||
               (!FileExists(folder + "/coordinator") && !absl::IsNotFound(server.status()) &&
                !(server.ok() && server->keeps_run()));
  run.own_etcd = FileExists(EtcdLog(EtcdFolder(store.root())));
  const auto config = LoadConfig(RunDir(run_dir).ConfigFile());
  const bool memory = config.ok() && !HasJournal(*config);
  if (memory && !run.joined) return run;
  const auto held = RunDir::Take(run_dir);
  if (!held.ok()) {
    run.journal_note =
        absl::StrCat("the journal was not looked at: ", std::string(held.status().message()));
    return run;
  }
  if (run.joined) {
    PSGD_RETURN_IF_ERROR(VerifyJoinedJournal(run_dir, folder, servers.leader, &run));
  } else if (has_own) {
    VerifyLeadersJournal(store.root(), config, &run);
  }
  if (memory) return run;
  for (const std::string& name : servers.others) VerifyServerInside(run_dir, name, &run);
  if (config.ok()) CheckRules(*config, &run);
  return run;
}

std::string VerifiedText(const VerifiedRun& run, bool json) {
  if (json) {
    return Record{{"checkpoints", ListOf(run.checkpoints)},
                  {"journal", ListOf(run.journal)},
                  {"journal_note", run.journal_note},
                  {"record_note", run.record_note}}
               .dump(2) +
           "\n";
  }
  return absl::StrCat(CheckpointsText(run.checkpoints), JournalText(run.journal), run.journal_note,
                      run.journal_note.empty() ? "" : "\n", run.record_note,
                      run.record_note.empty() ? "" : "\n");
}

absl::Status VerifiedStatus(const std::string& run_dir, const VerifiedRun& run) {
  const auto sound = Sound(run.checkpoints);
  if (Damaged(run.journal) > 0) {
    const bool recovers = std::ranges::all_of(run.journal, [](const CheckedJournal& part) {
      return part.server != 0 || IsUnread(part) || part.report.recovers;
    });
    const std::vector<std::string> dirs = DamagedDirs(run_dir, run);
    const bool joined = run.joined || dirs.front() != run_dir;
    const std::string goes_on = run.own_etcd ? "ps-run --resume" : joined ? "--join" : "--recover";
    // Renaming comes first, whatever else is damaged.
    if (std::any_of(run.journal.begin(), run.journal.end(),
                    [](const CheckedJournal& part) { return part.report.misplaced; })) {
      return DataLossError("folders of the journal of ", absl::StrJoin(dirs, " and "),
                           " are not what their names say; ", goes_on,
                           " would refuse it: rename them as said above, and verify it again");
    }
    return DataLossError(
        "the journal of ", absl::StrJoin(dirs, " and of "), " is damaged; ",
        recovers ? absl::StrCat(goes_on, " still goes on from what is sound, to the same weights")
        : run.own_etcd
            ? absl::StrCat(ShellLine({"ps-run", "--resume", run_dir}),
                           " puts a new server in its place if its shards have other copies; if "
                           "not, restore it from a copy, or ",
                           sound > 0 ? "go on from a checkpoint with --resume --checkpoint ID"
                                     : "start the run anew")
        : joined ? "--join would refuse it: restore it from a copy, or go on from a checkpoint "
                   "of the run (--resume, with the run directory of its first server)"
        : sound > 0
            ? "--recover would refuse it: go on from a checkpoint with --resume, or restore the "
              "journal from a copy"
            : "--recover would refuse it, and there is no checkpoint: restore it from a copy, or "
              "start the run anew");
  }
  if (run.record_gone) {
    const RunDir dir(run_dir);
    return DataLossError(
        "the journals of ", run_dir,
        " go on only with the run's record, and the data of the etcd "
        "that has it are gone: restore ",
        EtcdFolder(dir.ServerDir()), " from a copy, or ",
        sound > 0 ? "go on from a checkpoint with --resume" : "start the run anew");
  }
  if (Unread(run.journal) + Unread(run.checkpoints) > 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        "some of ", run_dir,
        " could not be read, which says nothing of what is in it: look who owns it, and verify "
        "it as the user that trained (or root)"));
  }
  if (const auto damaged = Damaged(run.checkpoints); damaged > 0) {
    return DataLossError(
        damaged, " of the checkpoints of ", run_dir, damaged > 1 ? " are" : " is", " damaged, ",
        sound, " sound; ",
        sound > 0 ? "--resume takes the newest sound one: restore the others from a copy, or leave "
                    "them to be pruned"
                  : "restore them from a copy, or start the run anew");
  }
  if (sound > 0 || !run.journal.empty() || (run.joined && !run.own_etcd)) return absl::OkStatus();
  return NotFoundError(
      run_dir, " has no complete checkpoint; durability.checkpoint says how often one is taken");
}

}  // namespace psgd
