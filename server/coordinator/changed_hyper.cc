#include "server/coordinator/changed_hyper.h"

#include "proto/local_steps.h"

namespace psgd {

absl::StatusOr<HyperParameters> ChangedHyper(HyperParameters present,
                                             const SetHyperRequest& request, const Config& config) {
  const bool local = TakesLocalSteps(config.local());
  if (config.optimizer().has_worker() || (local && request.set_weight_decay())) {
    return FailedPreconditionError(
        "the workers' own optimizers have the ",
        local && !config.optimizer().has_worker() ? "" : "learning rate and the ", "weight decay (",
        local ? "local.steps" : "optimizer: worker",
        "), and these cannot change during a run: change them in the ",
        config.model().has_client() ? "program that trains" : "config (local.optimizer)",
        ", and resume the run");
  }
  if (request.set_learning_rate()) {
    if (!(request.hyper().learning_rate() > 0) || request.hyper().learning_rate() > 1e6) {
      return InvalidArgumentError("learning rate ", request.hyper().learning_rate(),
                                  " is not above 0 and at most 1e6");
    }
    present.set_learning_rate(request.hyper().learning_rate());
  }
  if (request.set_weight_decay()) {
    if (!(request.hyper().weight_decay() >= 0) || request.hyper().weight_decay() > 1) {
      return InvalidArgumentError("weight decay ", request.hyper().weight_decay(),
                                  " is not between 0 and 1");
    }
    present.set_weight_decay(request.hyper().weight_decay());
  }
  return present;
}

}  // namespace psgd
