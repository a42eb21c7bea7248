#include "experiment/plan/sweep_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/files.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kMostPlanBytes = size_t{64} << 20;
constexpr size_t kMostOutcomeBytes = size_t{1} << 20;

Json ToJson(const PlanEntry& entry) {
  Json axes = Json::array();
  for (const auto& [key, value] : entry.axes) axes.push_back({key, value});
  return {{"id", entry.id},     {"label", entry.label}, {"axes", axes},
          {"seed", entry.seed}, {"twin", entry.twin},   {"twin_id", entry.twin_id}};
}

constexpr std::pair<Outcome::Kind, const char*> kKinds[] = {{Outcome::Kind::kFailed, "failed"},
                                                            {Outcome::Kind::kStopped, "stopped"},
                                                            {Outcome::Kind::kFinished, "finished"}};

// Throws the library's exception if the file has another form.
PlanEntry EntryOf(const Json& json) {
  PlanEntry entry;
  entry.id = json.at("id").get<std::string>();
  entry.label = json.at("label").get<std::string>();
  for (const Json& axis : json.at("axes")) {
    entry.axes.emplace_back(axis.at(0).get<std::string>(), axis.at(1).get<std::string>());
  }
  entry.seed = json.at("seed").get<uint64_t>();
  entry.twin = json.at("twin").get<bool>();
  entry.twin_id = json.at("twin_id").get<std::string>();
  return entry;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HeldLock>> HeldLock::Try(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) return FileError("open", path, errno);
  std::unique_ptr<HeldLock> lock(new HeldLock(descriptor));
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) return nullptr;
  return FileError("lock", path, errno);
}

HeldLock::~HeldLock() { close(descriptor_); }

absl::Status SweepDir::Make() const {
  for (const char* folder :
       {"", "/configs", "/runs", "/logs", "/outcomes", "/rungs", "/failed", "/locks"}) {
    std::error_code error;
    fs::create_directories(path_ + folder, error);
    if (error) return FileError("make the folder", path_ + folder, error.value());
  }
  return absl::OkStatus();
}

absl::StatusOr<SweepPlan> SweepDir::ReadPlan() const {
  PSGD_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(PlanFile(), kMostPlanBytes));
  try {
    const Json json = Json::parse(text);
    SweepPlan plan;
    plan.name = json.at("name").get<std::string>();
    plan.question = json.at("question").get<std::string>();
    for (const Json& run : json.at("runs")) plan.runs.push_back(EntryOf(run));
    plan.shared = json.value("shared", std::vector<std::string>());
    return plan;
  } catch (const Json::exception& error) {
    return DataLossError(PlanFile(), ": not a sweep's plan (", error.what(),
                         "); ps-sweep with the sweep's file writes it again");
  }
}

absl::Status SweepDir::WritePlan(const SweepPlan& plan) const {
  Json runs = Json::array();
  for (const PlanEntry& entry : plan.runs) runs.push_back(ToJson(entry));
  const Json json{
      {"name", plan.name}, {"question", plan.question}, {"runs", runs}, {"shared", plan.shared}};
  return WriteFileAtomically(PlanFile(), json.dump(1) + "\n");
}

std::optional<Outcome> SweepDir::ReadOutcome(const std::string& id) const {
  const auto text = ReadSmallFile(OutcomeFile(id), kMostOutcomeBytes);
  if (!text.ok()) return std::nullopt;
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  try {
    for (const auto& [kind, name] : kKinds) {
      if (json.at("outcome") != name) continue;
      return Outcome{kind, json.at("detail").get<std::string>(), json.at("epoch").get<double>(),
                     json.value("rule", "")};
    }
  } catch (const Json::exception&) {
  }
  return std::nullopt;
}

absl::Status SweepDir::WriteOutcome(const std::string& id, const Outcome& outcome) const {
  Json json{{"outcome", kKinds[static_cast<size_t>(outcome.kind)].second},
            {"detail", outcome.detail},
            {"epoch", outcome.epoch}};
  if (!outcome.rule.empty()) json["rule"] = outcome.rule;
  return WriteFileAtomically(OutcomeFile(id),
                             json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void SweepDir::ForgetOutcome(const std::string& id) const { unlink(OutcomeFile(id).c_str()); }

std::vector<AtRung> SweepDir::ReadRungs(const std::string& id) const {
  const auto text = ReadSmallFile(RungsFile(id), kMostOutcomeBytes);
  if (!text.ok()) return {};
  std::vector<AtRung> reached;
  try {
    for (const Json& at : Json::parse(*text)) {
      // Numbers that are not finite are written as null.
      const auto number = [&](const char* key) {
        return at.at(key).is_null() ? std::numeric_limits<double>::quiet_NaN()
                                    : at.at(key).get<double>();
      };
      // Older programs wrote the accuracy.
      const char* score = at.contains("accuracy") ? "accuracy" : "score";
      reached.push_back({number("epoch"), number(score), number("loss")});
    }
  } catch (const Json::exception&) {
    return {};
  }
  return reached;
}

absl::Status SweepDir::WriteRungs(const std::string& id, const std::vector<AtRung>& reached) const {
  Json json = Json::array();
  for (const AtRung& at : reached) {
    json.push_back({{"epoch", at.epoch}, {"score", at.score}, {"loss", at.loss}});
  }
  return WriteFileAtomically(RungsFile(id), json.dump(1) + "\n");
}

void SweepDir::ForgetRungs(const std::string& id) const { unlink(RungsFile(id).c_str()); }

absl::Status SweepDir::PutAway(const std::string& id) const {
  std::error_code error;
  if (!fs::exists(RunPath(id), error)) return absl::OkStatus();
  for (int i = 1;; ++i) {
    const std::string target = absl::StrCat(path_, "/failed/", id, "-", i);
    if (fs::exists(target, error)) continue;
    fs::rename(RunPath(id), target, error);
    return error ? FileError("put away", RunPath(id), error.value()) : absl::OkStatus();
  }
}

SweepPlan PlanOf(const Sweep& sweep, const RunPlan& runs) {
  SweepPlan plan{sweep.name(), sweep.question(), {}, {}};
  for (const PlannedRun& run : runs.runs) {
    plan.runs.push_back({run.id, run.label, run.axes, run.config.seed(), run.twin, run.twin_id});
  }
  return plan;
}

}  // namespace psgd
