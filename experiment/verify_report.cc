#include "experiment/verify_report.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/units.h"
#include "experiment/checkpoint_report.h"
#include "experiment/readable.h"
#include "experiment/records.h"
#include "experiment/run_dir.h"
#include "server/coordinator_store.h"

namespace psgd {
namespace {

bool IsDamaged(const CheckedCheckpoint& checkpoint) {
  return checkpoint.sealed && !checkpoint.status.ok();
}
bool IsDamaged(const CheckedJournal& journal) { return !journal.report.damage.empty(); }

template <typename Checked>
auto Damaged(const std::vector<Checked>& all) {
  return std::count_if(all.begin(), all.end(), [](const auto& one) { return IsDamaged(one); });
}

auto Sound(const std::vector<CheckedCheckpoint>& all) {
  return std::count_if(all.begin(), all.end(), [](const auto& one) { return one.status.ok(); });
}

std::string StateOf(const CheckedCheckpoint& checkpoint) {
  return !checkpoint.sealed ? "incomplete" : checkpoint.status.ok() ? "sound" : "damaged";
}
std::string StateOf(const CheckedJournal& journal) {
  if (!IsDamaged(journal)) return "sound";
  return journal.report.recovers ? "damaged, not where it matters" : "damaged";
}

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

absl::Status VerifyJournal(const std::string& folder, std::vector<CheckedJournal>* checked) {
  CheckedJournal coordinator{"coordinator", {}};
  const auto record = CoordinatorStore::Check(folder + "/coordinator", &coordinator.report.damage);
  coordinator.report.recovers = record.ok() && coordinator.report.damage.empty();
  int shards = 0;
  if (record.ok()) {
    shards = record->placement().endpoints_size();
  } else if (absl::IsNotFound(record.status()) && coordinator.report.damage.empty()) {
    return absl::OkStatus();  // training had not begun
  } else {
    coordinator.report.damage.emplace_back(record.status().message());
    while (std::filesystem::exists(absl::StrCat(folder, "/shard-", shards))) ++shards;
  }
  checked->push_back(std::move(coordinator));
  for (int s = 0; s < shards; ++s) {
    RocksJournalOptions options;
    options.folder = absl::StrCat(folder, "/shard-", s);
    options.shard = static_cast<uint32_t>(s);
    checked->push_back({absl::StrCat("shard ", s), RocksJournal::Check(std::move(options))});
  }
  return absl::OkStatus();
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
  return {{"part", journal.part},          {"images", report.images},
          {"first_entry", report.first},   {"last_entry", report.last},
          {"state", IsDamaged(journal) ? "damaged" : "sound"},
          {"recovers", report.recovers},   {"problems", report.damage}};
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
    table.Add({absl::StrCat(checkpoint.id), OrDash(info.name()),
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
    table.Add({part.part, OrDash(absl::StrJoin(report.images, ", ")),
               report.last == 0 ? "-" : absl::StrCat(report.first, " to ", report.last),
               StateOf(part)});
    for (const std::string& damage : report.damage) {
      absl::StrAppend(&wrong, part.part, ": ", damage, "\n");
    }
  }
  return table.empty() ? "" : absl::StrCat("\n", table.Text(), wrong);
}

}  // namespace

absl::StatusOr<VerifiedRun> VerifyRun(const std::string& run_dir) {
  PSGD_ASSIGN_OR_RETURN(const CheckpointStore store, CheckpointsOf(run_dir));
  VerifiedRun run;
  PSGD_ASSIGN_OR_RETURN(run.checkpoints, store.Verify());
  const std::string folder = store.root() + "/journal";
  std::error_code error;
  if (!std::filesystem::exists(folder, error)) return run;
  const auto held = RunDir::Take(run_dir);
  if (held.ok()) {
    PSGD_RETURN_IF_ERROR(VerifyJournal(folder, &run.journal));
  } else {
    run.journal_note = absl::StrCat("the journal was not looked at: ", std::string(held.status().message()));
  }
  return run;
}

std::string VerifiedText(const VerifiedRun& run, bool json) {
  if (json) {
    return Record{{"checkpoints", ListOf(run.checkpoints)},
                  {"journal", ListOf(run.journal)},
                  {"journal_note", run.journal_note}}.dump(2) + "\n";
  }
  return absl::StrCat(CheckpointsText(run.checkpoints), JournalText(run.journal), run.journal_note,
                      run.journal_note.empty() ? "" : "\n");
}

absl::Status VerifiedStatus(const std::string& run_dir, const VerifiedRun& run) {
  const auto sound = Sound(run.checkpoints);
  if (Damaged(run.journal) > 0) {
    const bool recovers = std::all_of(run.journal.begin(), run.journal.end(),
                                      [](const CheckedJournal& part) { return part.report.recovers; });
    return absl::DataLossError(absl::StrCat(
        "the journal of ", run_dir, " is damaged; ",
        recovers  ? "--recover still goes on from what is sound, to the same weights"
        : sound > 0 ? "--recover would refuse it: go on from a checkpoint with --resume, or restore the "
                      "journal from a copy"
                    : "--recover would refuse it, and there is no checkpoint: restore it from a copy, or "
                      "start the run anew"));
  }
  if (const auto damaged = Damaged(run.checkpoints); damaged > 0) {
    return absl::DataLossError(absl::StrCat(
        damaged, " of the checkpoints of ", run_dir, damaged > 1 ? " are" : " is",
        " damaged, ", sound, " sound; ",
        sound > 0 ? "--resume takes the newest sound one: restore the others from a copy, or leave "
                    "them to be pruned"
                  : "restore them from a copy, or start the run anew"));
  }
  if (sound > 0 || !run.journal.empty()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(
      run_dir, " has no complete checkpoint; durability.checkpoint says how often one is taken"));
}

}  // namespace psgd
