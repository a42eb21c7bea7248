#include "experiment/record/resume_check.h"

#include "absl/strings/str_cat.h"
#include "experiment/record/run_dir.h"
#include "experiment/record/summary.h"

namespace psgd {

absl::Status CheckUnfinished(const std::string& run_dir, const Config& config) {
  const auto summary = ReadSummary(RunDir(run_dir).SummaryFile());
  if (!summary.ok() || summary->status != Summary::Status::kFinished) return absl::OkStatus();
  if (config.train().max_steps() > 0 || summary->epochs < config.train().epochs() - 1e-6) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      run_dir, " has finished its ", config.train().epochs(),
      " epochs; to train on, raise them: --set train.epochs=", 2 * config.train().epochs()));
}

}  // namespace psgd
