#include "train/arriving_weights.h"

#include "common/clock.h"
#include "train/step_clock.h"

namespace psgd {

ArrivingWeights::ArrivingWeights(const CodecTable& codecs, const Placement& placement,
                                 const PushedFactors& own, Replicas* network, SessionCore* core,
                                 Session* session, StepTrace* trace)
    : codecs_(codecs),
      placement_(placement),
      own_(own),
      network_(network),
      core_(core),
      session_(session),
      trace_(trace) {}

void ArrivingWeights::Begin(uint64_t clock) {
  const auto weights = [this](int parameter) { return network_->parameter(parameter); };
  installer_.emplace(codecs_, network_->spec(), placement_, own_, weights, weights);
  failed_ = absl::OkStatus();
  clock_ = clock;
  waited_ = installing_ = 0;
}

absl::Status ArrivingWeights::Await(int parameter) {
  return WaitFor([this, parameter] { return installer_->complete(parameter); });
}

absl::Status ArrivingWeights::AwaitAll() {
  return WaitFor([this] { return !core_->pulling(); });
}

absl::Status ArrivingWeights::WaitFor(const std::function<bool()>& here) {
  PSGD_RETURN_IF_ERROR(failed_);
  session_->PullCame();
  failed_ = InstallArrived();
  if (!failed_.ok() || here()) return failed_;
  const double installing = installing_;
  {
    StepClock waiting(&waited_, trace_, TraceSpan::PULL, clock_);
    const absl::Status waited = session_->WaitUntil([&] {
      failed_ = InstallArrived();
      return !failed_.ok() || here();
    });
    failed_.Update(waited);
  }
  waited_ -= installing_ - installing;
  return failed_;
}

absl::Status ArrivingWeights::InstallArrived() {
  auto arrived = core_->TakeSlice();
  if (!arrived) return absl::OkStatus();
  StepClock decoding(&installing_, trace_, TraceSpan::INSTALL, clock_);
  for (; arrived; arrived = core_->TakeSlice())
    PSGD_RETURN_IF_ERROR(installer_->Install(arrived->first, arrived->second));
  return absl::OkStatus();
}

}  // namespace psgd
