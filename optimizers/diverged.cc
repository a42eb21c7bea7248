#include "optimizers/diverged.h"

#include <google/protobuf/descriptor.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "optimizers/optimizer.h"
#include "proto/local_steps.h"

namespace psgd {
namespace {

constexpr absl::string_view kDiverged = "training diverged: ";

// Whether a program makes the steps, with an optimizer of its own.
bool ProgramOptimizes(const Config& config) {
  return config.model().has_client() &&
         (config.optimizer().has_worker() || TakesLocalSteps(config.local()));
}

std::string RateText(const std::string& section, const OptimizerConfig& optimizer) {
  const auto* kind = OptimizerConfig::descriptor()->FindFieldByNumber(optimizer.kind_case());
  if (kind == nullptr || optimizer.has_worker()) return section;
  return absl::StrCat(section, ".", kind->name(), ".learning_rate is ",
                      FirstHyper(optimizer).learning_rate());
}

std::string RateText(const Config& config) {
  if (ProgramOptimizes(config)) return "of the program's optimizer";
  return TakesLocalSteps(config.local()) ? RateText("local.optimizer", config.local().optimizer())
                                         : RateText("optimizer", config.optimizer());
}

std::string WarmUpText(const Config& config) {
  if (ProgramOptimizes(config)) return "in the program, as with torch.optim.lr_scheduler.LinearLR";
  return TakesLocalSteps(config.local()) ? "local.schedule.warmup" : "schedule.warmup";
}

std::string BoundText(const Config& config) {
  if (config.model().has_client()) {
    return "in the program, as with torch.nn.utils.clip_grad_norm_";
  }
  const ClipConfig& clip = config.train().clip();
  return clip.norm() > 0 || clip.value() > 0 ? "lower train.clip" : "train.clip: {norm: 1}";
}

}  // namespace

std::string DivergedText(const Config& config) {
  return absl::StrCat(
      kDiverged, "lower the learning rate (", RateText(config), "), bound the gradients (",
      BoundText(config), "), and check the data for wrong values; a warm-up (", WarmUpText(config),
      ")", config.consistency().staleness() == 0 ? "" : " or a lower consistency.staleness",
      " may help, too. Start anew, or resume from a checkpoint before training diverged (ps-ctl "
      "checkpoints RUN_DIR lists them; ps-run --resume RUN_DIR --checkpoint ID",
      config.model().has_client() ? " -- COMMAND)" : ")");
}

std::string WeightsDivergedText(const Config& config, absl::string_view which) {
  return absl::StrCat(DivergedText(config), ". The server's weights are not finite numbers (",
                      which, ")");
}

bool SaysDiverged(absl::string_view error) { return absl::StrContains(error, kDiverged); }

}  // namespace psgd
