#include "optimizers/diverged.h"

#include <google/protobuf/descriptor.h>

#include "absl/strings/str_cat.h"
#include "optimizers/optimizer.h"
#include "proto/local_steps.h"

namespace psgd {
namespace {

std::string RateText(const std::string& section, const OptimizerConfig& optimizer) {
  const auto* kind = OptimizerConfig::descriptor()->FindFieldByNumber(optimizer.kind_case());
  if (kind == nullptr || optimizer.has_worker()) return section;
  return absl::StrCat(section, ".", kind->name(), ".learning_rate is ",
                      FirstHyper(optimizer).learning_rate());
}

}  // namespace

std::string DivergedText(const Config& config) {
  const bool local = TakesLocalSteps(config.local());
  const ClipConfig& clip = config.train().clip();
  const bool clips = clip.norm() > 0 || clip.value() > 0;
  return absl::StrCat("training diverged: lower the learning rate (",
                      local ? RateText("local.optimizer", config.local().optimizer())
                            : RateText("optimizer", config.optimizer()),
                      "), bound the gradients (",
                      clips ? "lower train.clip" : "train.clip: {norm: 1}",
                      "), and check the data for wrong values; a warm-up (", local ? "local." : "",
                      "schedule.warmup) or a lower consistency.staleness may help, too. Start "
                      "anew, or resume from a "
                      "checkpoint before that (ps-ctl checkpoints)");
}

}  // namespace psgd
