#include "dashboard/run_history.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {
// Threads may deliver records out of order by up to this many seconds.
constexpr double kOutOfOrder = 1;
}  // namespace

std::string JsonText(const Record& record) {
  return record.dump(-1, ' ', /*ensure_ascii=*/false, Record::error_handler_t::replace);
}

size_t RunHistory::MostOf(const std::string& kind) const {
  if (kind == "progress") return options_.progress;
  return kind == "detail" ? options_.details : options_.others;
}

std::string RunHistory::Add(Record record) {
  double seconds = NumberIn(record, "seconds");
  if (before_ + seconds < last_ - kOutOfOrder) before_ = last_;
  seconds += before_;
  last_ = std::max(last_, seconds);
  record["seconds"] = seconds;
  const auto kind = record.find("kind");
  const std::string name =
      kind != record.end() && kind->is_string() ? kind->get<std::string>() : "";
  std::vector<Kept>& kept = kinds_[name];
  kept.push_back({next_++, JsonText(record)});
  if (kept.size() > MostOf(name)) {
    // Drops every second record of the older half.
    size_t to = 0;
    const size_t half = kept.size() / 2;
    for (size_t from = 0; from < kept.size(); ++from) {
      if (from >= half || from % 2 == 0) std::swap(kept[to++], kept[from]);
    }
    std::string text = kept[to - 1].text;
    kept.resize(to);
    return text;
  }
  return kept.back().text;
}

std::string RunHistory::Json() const {
  std::vector<const Kept*> all;
  for (const auto& [kind, kept] : kinds_) {
    for (const Kept& one : kept) all.push_back(&one);
  }
  std::ranges::sort(all, [](const Kept* a, const Kept* b) { return a->number < b->number; });
  std::string json = "[";
  for (const Kept* one : all) absl::StrAppend(&json, json.size() > 1 ? "," : "", one->text);
  return json + "]";
}

}  // namespace psgd
