#include "optimizers/diverged.h"

#include <google/protobuf/descriptor.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "optimizers/optimizer.h"
#include "proto/local_steps.h"

namespace psgd {
namespace {

constexpr absl::string_view kDiverged = "training diverged: ";

std::string RateText(const std::string& section, const OptimizerConfig& optimizer) {
  const auto* kind = OptimizerConfig::descriptor()->FindFieldByNumber(optimizer.kind_case());
  if (kind == nullptr || optimizer.has_worker()) return section;
  return absl::StrCat(section, ".", kind->name(), ".learning_rate is ",
                      FirstHyper(optimizer).learning_rate());
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
  const bool local = TakesLocalSteps(config.local());
  return absl::StrCat(
      kDiverged, "lower the learning rate (",
      local ? RateText("local.optimizer", config.local().optimizer())
            : RateText("optimizer", config.optimizer()),
      "), bound the gradients (", BoundText(config),
      "), and check the data for wrong values; a warm-up (", local ? "local." : "",
      "schedule.warmup)",
      config.consistency().staleness() == 0 ? "" : " or a lower consistency.staleness",
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
