#include "experiment/launch/earlier_results.h"

#include <utility>

#include "common/files.h"
#include "experiment/record/records.h"
#include "experiment/record/run_dir.h"
#include "experiment/record/summary.h"

namespace psgd {
namespace {

constexpr size_t kMostBytes = size_t{16} << 20;

std::optional<std::string> TextOf(const std::string& path) {
  auto text = ReadSmallFile(path, kMostBytes);
  if (!text.ok()) return std::nullopt;
  return *std::move(text);
}

}  // namespace

EarlierResults::EarlierResults(const std::string& run_dir) : run_dir_(run_dir) {
  if (run_dir.empty()) return;
  const RunDir dir(run_dir);
  config_ = TextOf(dir.ConfigFile());
  summary_ = TextOf(dir.SummaryFile());
  const auto summary = ReadSummary(dir.SummaryFile());
  if (summary.ok() && summary->status == Summary::Status::kFinished)
    finished_steps_ = summary->steps;
  seconds_ = TotalSeconds(dir.MetricsFile());
}

bool EarlierResults::Restore() const {
  const RunDir dir(run_dir_);
  return config_ && WriteFileAtomically(dir.ConfigFile(), *config_).ok() &&
         (!summary_ || WriteFileAtomically(dir.SummaryFile(), *summary_).ok());
}

}  // namespace psgd
