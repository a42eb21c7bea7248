#include "train/weights_ahead.h"

#include <utility>

#include "worker/install_slice.h"

namespace psgd {

void WeightsAhead::Begin(std::vector<PulledSlice> pulled, PushedFactors own) {
  // Gradients leave, with weight decay, and payloads are decoded on the weights of the step under
  // way.
  const auto install = [this, pulled = std::move(pulled), own = std::move(own)] {
    PSGD_RETURN_IF_ERROR(InstallPulled(
        pulled, PullInstaller(
                    codecs_, network_->spec(), placement_, own,
                    [this](int parameter) { return network_->parameter(parameter); },
                    [this](int parameter) { return network_->next_parameter(parameter); })));
    return network_->StageParameters();
  };
  installed_ = std::async(std::launch::async, install);
}

absl::Status WeightsAhead::Finish() {
  PSGD_RETURN_IF_ERROR(installed_.get());
  network_->TakeStagedParameters();
  return absl::OkStatus();
}

}  // namespace psgd
