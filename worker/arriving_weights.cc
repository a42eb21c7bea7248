#include "worker/arriving_weights.h"

#include <utility>

namespace psgd {

ArrivingWeights::ArrivingWeights(Options options, SessionCore* core, Session* session)
    : options_(std::move(options)), core_(core), session_(session) {}

void ArrivingWeights::Begin() {
  installer_.emplace(options_.codecs, options_.model, options_.placement, options_.own,
                     options_.weights, options_.weights);
  failed_ = absl::OkStatus();
  waited_ = installing_ = 0;
}

absl::Status ArrivingWeights::Await(int parameter) {
  return WaitFor([this, parameter] { return complete(parameter); });
}

absl::Status ArrivingWeights::AwaitAll() {
  return WaitFor([this] { return !core_->pulling(); });
}

absl::Status ArrivingWeights::InstallWhatCame() {
  PSGD_RETURN_IF_ERROR(failed_);
  session_->PullCame();
  return failed_ = InstallArrived();
}

absl::Status ArrivingWeights::WaitFor(const std::function<bool()>& here) {
  PSGD_RETURN_IF_ERROR(InstallWhatCame());
  if (here()) return failed_;
  const double installing = installing_;
  const Time start = SteadyNow();
  const absl::Status waited = session_->WaitUntil([&] {
    failed_ = InstallArrived();
    return !failed_.ok() || here();
  });
  const Time end = SteadyNow();
  if (options_.on_waited) options_.on_waited(start, end);
  waited_ += Seconds(end - start) - (installing_ - installing);
  return failed_.ok() ? waited : failed_;
}

absl::Status ArrivingWeights::InstallArrived() {
  auto arrived = core_->TakeSlice();
  if (!arrived) return absl::OkStatus();
  const Time start = SteadyNow();
  absl::Status installed;
  for (; arrived && installed.ok(); arrived = core_->TakeSlice())
    installed = installer_->Install(arrived->first, arrived->second);
  const Time end = SteadyNow();
  if (options_.on_installed) options_.on_installed(start, end);
  installing_ += Seconds(end - start);
  return installed;
}

}  // namespace psgd
