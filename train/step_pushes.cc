#include "train/step_pushes.h"

#include <algorithm>
#include <utility>

#include "proto/local_steps.h"
#include "worker/device_codecs.h"

namespace psgd {
namespace {

// Whether the server may send updates in place of weights, for which a worker needs its own.
bool PullsUpdates(const Config& config) {
  return config.compression().pull().has_delta() &&
         !config.compression().pull().delta().has_codec();
}

}  // namespace

absl::Status StepPushes::MakeEncoder(const NetworkOptions& first) {
  Network* const network = network_->device_network();
  const ClipConfig& clip = config().train().clip();
  const bool clips = clip.norm() > 0 || clip.value() > 0;
  // Local steps and bounds need the gradients themselves.
  if (network != nullptr && !TakesLocalSteps(config().local()) && !clips) {
    PSGD_ASSIGN_OR_RETURN(device_codecs_,
                          LoadDeviceCodecs(first.backend, first.plugin_dir, first.device));
  }
  std::vector<int64_t> factor_rows;
  for (int i = 0; i < network_->spec().parameters_size(); ++i) {
    factor_rows.push_back(network_->factor_rows(i));
    if (factor_rows.back() == 0) continue;
    member_.options().log->info("pushes the gradient of {} as its factors",
                                network_->spec().parameters(i).name());
  }
  if (clips) clip_.emplace(clip, network_->spec(), factor_rows);
  const std::vector<DeviceCodecs*> devices(factor_rows.size(), device_codecs_.get());
  PSGD_ASSIGN_OR_RETURN(encoder_,
                        UpdateEncoder::Create(config(), network_->spec(), member_.placement(),
                                              member_.key().worker(), factor_rows, devices));
  const auto& on_device = encoder_->on_device();
  const auto moved = std::ranges::count(on_device, true);
  if (moved == 0) return absl::OkStatus();
  member_.options().log->info("the gradients of {} of {} parameters are encoded on the GPU", moved,
                              on_device.size());
  // The first parameter's gradient comes last.
  const auto last = std::ranges::find(on_device, true) - on_device.begin();
  network->KeepOnDevice(on_device, [=, this](int parameter, const DeviceGradient& gradient) {
    PSGD_RETURN_IF_ERROR(encoder_->Start(parameter, gradient, step_weight_decay_, step_clock_));
    return parameter == last ? device_codecs_->Flush() : absl::OkStatus();
  });
  return absl::OkStatus();
}

std::span<const float> StepPushes::GradientOf(int parameter, std::vector<float>* room) const {
  const std::span<const float> gradient = network_->gradient(parameter);
  return clip_ ? clip_->Clipped(parameter, gradient, room) : gradient;
}

// Gradients come from the last parameter to the first.
absl::Status StepPushes::TakeGradient(int parameter) {
  if (!clip_ || !clip_->waits_for_all()) return PushGradient(parameter);
  clip_->Add(parameter, network_->gradient(parameter));
  if (parameter > 0) return absl::OkStatus();
  for (int p = network_->spec().parameters_size() - 1; p >= 0; --p) {
    PSGD_RETURN_IF_ERROR(PushGradient(p));
  }
  clip_->EndStep();
  return absl::OkStatus();
}

absl::Status StepPushes::PushGradient(int parameter) {
  encoded_.clear();
  if (encoder_->on_device()[parameter]) {
    PSGD_RETURN_IF_ERROR(encoder_->Finish(parameter, &encoded_));
  } else {
    encoder_->Encode(parameter, GradientOf(parameter, &clipped_), network_->parameter(parameter),
                     step_weight_decay_, step_clock_, &encoded_);
  }
  PushEncoded(step_clock_);
  return absl::OkStatus();
}

absl::Status StepPushes::PushChanges(uint64_t clock, LocalSteps* local) {
  encoder_->OnlySlices([this, clock](uint32_t slice) {
    return member_.core().session().fragments().Carries(clock, slice);
  });
  PSGD_RETURN_IF_ERROR(local->Exchange(clock));
  for (int p = 0; p < network_->spec().parameters_size(); ++p) {
    encoded_.clear();
    encoder_->Encode(p, local->Change(p), local->shards(p), /*weight_decay=*/0, clock, &encoded_);
    PushEncoded(clock);
  }
  return absl::OkStatus();
}

void StepPushes::PushEncoded(uint64_t clock) {
  for (EncodedSlice& slice : encoded_) {
    member_.autotune().Pushed(slice.travels().size());
    if (slice.codec == CODEC_FACTORS && PullsUpdates(config())) {
      factors_.Keep(slice.slice, clock, slice.payload);
    }
    member_.session().Push(clock, std::move(slice));
  }
}

}  // namespace psgd
