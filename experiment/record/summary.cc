#include "experiment/record/summary.h"

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>
#include <utility>

#include "common/files.h"
#include "experiment/record/run_files.h"

namespace psgd {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxSummaryBytes = size_t{1} << 20;
constexpr std::array<std::pair<Summary::Status, const char*>, 3> kStatusNames{
    {{Summary::Status::kFinished, "finished"},
     {Summary::Status::kFailed, "failed"},
     {Summary::Status::kInterrupted, "interrupted"}}};

// Each struct lists its fields once, for reading and writing: `visit(key, field)`.
template <typename Staleness, typename Visit>
void VisitStaleness(Staleness& staleness, Visit visit) {
  visit("mean", staleness.mean);
  visit("p50", staleness.p50);
  visit("p99", staleness.p99);
  visit("max", staleness.max);
}

template <typename SummaryType, typename Visit>
void VisitSummary(SummaryType& summary, Visit visit) {
  visit("name", summary.name);
  visit("status", summary.status);
  visit("error", summary.error);
  visit("stopped_early", summary.stopped_early);
  visit("note", summary.note);
  visit("test_accuracy", summary.test_accuracy);
  visit("test_loss", summary.test_loss);
  visit("test_measures", summary.test_measures);
  visit("epochs", summary.epochs);
  visit("steps", summary.steps);
  visit("counts_incomplete", summary.counts_incomplete);
  visit("wall_seconds", summary.wall_seconds);
  visit("seconds_since_resume", summary.seconds_since_resume);
  visit("train_seconds", summary.train_seconds);
  visit("samples_per_second", summary.samples_per_second);
  visit("phase_seconds", summary.phase_seconds);
  visit("input_stall", summary.input_stall);
  visit("residual_norm_lost", summary.residual_norm_lost);
  visit("batches_repeated", summary.batches_repeated);
  visit("batches_lost", summary.batches_lost);
  visit("bytes_pushed", summary.bytes_pushed);
  visit("bytes_pulled", summary.bytes_pulled);
  visit("bytes_pushed_dense", summary.bytes_pushed_dense);
  visit("bytes_pulled_dense", summary.bytes_pulled_dense);
  visit("staleness", summary.staleness);
  visit("push_staleness", summary.push_staleness);
  visit("rejected", summary.rejected);
  visit("workers", summary.workers);
  visit("shards", summary.shards);
  visit("servers", summary.servers);
  visit("best_checkpoint", summary.best_checkpoint);
  visit("failed_checkpoint", summary.failed_checkpoint);
  visit("transport", summary.transport);
  visit("codec", summary.codec);
  visit("codec_carries", summary.codec_carries);
  visit("codecs", summary.codecs);
  visit("seed", summary.seed);
}

template <typename T>
Json ToJson(const T& value) {
  return value;
}
template <typename T>
Json ToJson(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}
Json ToJson(Summary::Status status) { return NameOf(status); }
Json ToJson(const StalenessSummary& staleness) {
  Json json;
  VisitStaleness(staleness, [&](const char* key, const auto& field) { json[key] = field; });
  return json;
}
template <typename Value>
Json ToJson(const std::map<std::string, Value>& values) {
  Json json = Json::object();
  for (const auto& [key, value] : values) json[key] = value;
  return json;
}

// Returns false if the value is missing (null) or has another type.
template <typename T>
bool FromJson(const Json& json, T* value) {
  if constexpr (std::is_floating_point_v<T>) {
    // A number that is not finite was written as null.
    *value = json.is_number() ? json.get<T>() : std::numeric_limits<T>::quiet_NaN();
    return json.is_number() || json.is_null();
  } else if constexpr (std::is_same_v<T, bool>) {
    if (json.is_boolean()) *value = json.get<bool>();
    return json.is_boolean();
  } else if constexpr (std::is_integral_v<T>) {
    if (!json.is_number_unsigned() || !std::in_range<T>(json.get<uint64_t>())) return false;
    *value = json.get<T>();
    return true;
  } else {
    if (json.is_string()) *value = json.get<std::string>();
    return json.is_string();
  }
}
template <typename T>
bool FromJson(const Json& json, std::optional<T>* value) {
  value->reset();
  if (json.is_null()) return true;
  T known{};
  const bool good = FromJson(json, &known);
  *value = std::move(known);
  return good;
}
bool FromJson(const Json& json, Summary::Status* status) {
  for (const auto& [known, name] : kStatusNames) {
    if (json != name) continue;
    *status = known;
    return true;
  }
  return false;
}
bool FromJson(const Json& json, StalenessSummary* staleness) {
  bool good = json.is_object();
  VisitStaleness(*staleness, [&](const char* key, auto& field) {
    good = good && json.contains(key) && FromJson(json[key], &field);
  });
  return good;
}
template <typename Value>
bool FromJson(const Json& json, std::map<std::string, Value>* values) {
  if (!json.is_object()) return false;
  for (const auto& [key, value] : json.items()) {
    if (!FromJson(value, &(*values)[key])) return false;
  }
  return true;
}

}  // namespace

StalenessSummary StalenessSummary::Of(const CountHistogram& histogram) {
  return {histogram.Mean(), histogram.Quantile(0.5), histogram.Quantile(0.99), histogram.max()};
}

const char* NameOf(Summary::Status status) {
  return kStatusNames[static_cast<size_t>(status)].second;
}

absl::Status WriteSummary(const Summary& summary, const std::string& path) {
  Json json;
  VisitSummary(summary, [&](const char* key, const auto& field) { json[key] = ToJson(field); });
  const std::string text =
      json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
  return WriteFileAtomically(path, text + "\n");
}

absl::StatusOr<Summary> ReadSummary(const std::string& path) {
  PSGD_RETURN_IF_ERROR(CheckRegularFile(path));
  PSGD_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, kMaxSummaryBytes));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return InvalidArgumentError(path, ": not a run's summary: no JSON object");
  }
  Summary summary;
  std::string bad;
  VisitSummary(summary, [&](const char* key, auto& field) {
    // Earlier versions wrote fewer keys.
    const bool needed = std::string_view(key) == "name" || std::string_view(key) == "status";
    const bool good = json.contains(key) ? FromJson(json[key], &field) : !needed;
    if (bad.empty() && !good) bad = key;
  });
  if (!bad.empty()) {
    return InvalidArgumentError(path, ": not a run's summary: \"", bad,
                                "\" is missing or of another type");
  }
  return summary;
}

}  // namespace psgd
