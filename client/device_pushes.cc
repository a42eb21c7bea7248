#include "client/device_pushes.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "common/device_gradient.h"
#include "proto/local_steps.h"
#include "worker/device_codecs.h"

namespace psgd {

std::vector<DeviceCodecs*> DevicePushes::Open(const ModelSpec& model, const Config& config) {
  std::vector<DeviceCodecs*> codecs(static_cast<size_t>(model.parameters_size()));
  why_not_.clear();
  for (const auto& [tensor, device] : wanted_) {
    if (TakesLocalSteps(config.local())) {
      why_not_[tensor] = "exchanges are rare (local.steps)";
      continue;
    }
    const ParameterSpec& parameter = model.parameters(static_cast<int>(tensor));
    if (parameter.sparse()) {
      why_not_[tensor] = "its rows travel one by one (PSGD_SPARSE)";
      continue;
    }
    // A device of which nothing is coded is not opened.
    if (std::string why = UpdateEncoder::WhyOnHost(config, parameter); !why.empty()) {
      why_not_[tensor] = std::move(why);
      continue;
    }
    if (!codecs_.contains(device)) {
      codecs_.emplace(device, LoadDeviceCodecs("cudnn", plugin_dir_, device));
    }
    const auto& opened = codecs_.at(device);
    if (opened.ok()) {
      codecs[tensor] = opened->get();
    } else {
      why_not_[tensor] = std::string(opened.status().message());
    }
  }
  return codecs;
}

void DevicePushes::Tell(const ModelSpec& model, const UpdateEncoder& encoder,
                        const Log& log) const {
  std::map<int, std::vector<std::string>> there;                 // by device
  std::map<std::string, std::vector<std::string>> through_host;  // by reason
  for (const auto& [tensor, device] : wanted_) {
    const std::string& name = model.parameters(static_cast<int>(tensor)).name();
    if (encoder.on_device()[tensor]) {
      there[device].push_back(name);
      continue;
    }
    const auto why = why_not_.find(tensor);
    through_host[why != why_not_.end() ? why->second : encoder.why_on_host()[tensor]].push_back(
        name);
  }
  for (const auto& [device, names] : there) {
    log->info("coded on CUDA device {}: {}", device, absl::StrJoin(names, ", "));
  }
  for (const auto& [why, names] : through_host) {
    log->info("on a GPU, but coded on the host, because {}: {}", why, absl::StrJoin(names, ", "));
  }
}

absl::StatusOr<void*> DevicePushes::EventOf(uint32_t tensor, const DeviceValues& values) {
  DeviceCodecs& codecs = **codecs_.at(wanted_.at(tensor));
  PSGD_RETURN_IF_ERROR(codecs.CheckMemory(values.values));
  if (values.base != nullptr) {
    PSGD_RETURN_IF_ERROR(codecs.CheckMemory(values.base));
  }
  return codecs.EventOf(values.stream);
}

absl::Status DevicePushes::Start(uint32_t tensor, Pushed what, const DeviceValues& values,
                                 double weight_decay, uint64_t clock, UpdateEncoder* encoder) {
  PSGD_ASSIGN_OR_RETURN(void* const ready, EventOf(tensor, values));
  const int parameter = static_cast<int>(tensor);
  PSGD_RETURN_IF_ERROR(
      what == Pushed::kWeights
          ? encoder->Start(parameter, DeviceDifference{values.base, values.values, ready}, clock)
          : encoder->Start(parameter, DeviceGradient{values.values, values.base, ready},
                           weight_decay, clock));
  started_.push_back(tensor);
  noted_ += values.count;
  return absl::OkStatus();
}

absl::Status DevicePushes::LaunchIfMany() {
  if (noted_ < kMany) return absl::OkStatus();
  noted_ = 0;
  for (const auto& [device, codecs] : codecs_) {
    if (codecs.ok()) PSGD_RETURN_IF_ERROR((*codecs)->Flush());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<EncodedSlice>> DevicePushes::FinishFirst(UpdateEncoder* encoder) {
  const uint32_t tensor = started_.front();
  started_.pop_front();
  std::vector<EncodedSlice> encoded;
  PSGD_RETURN_IF_ERROR(encoder->Finish(static_cast<int>(tensor), &encoded));
  return encoded;
}

absl::Status DevicePushes::FinishDone(UpdateEncoder* encoder, const Take& take) {
  while (!started_.empty()) {
    const uint32_t tensor = started_.front();
    PSGD_ASSIGN_OR_RETURN(const bool done, encoder->IsDone(static_cast<int>(tensor)));
    if (!done) return absl::OkStatus();
    PSGD_ASSIGN_OR_RETURN(auto encoded, FinishFirst(encoder));
    PSGD_RETURN_IF_ERROR(take(tensor, std::move(encoded)));
  }
  return absl::OkStatus();
}

absl::Status DevicePushes::FinishAll(UpdateEncoder* encoder, const Take& take) {
  noted_ = 0;
  absl::Status status;
  while (!started_.empty()) {
    const uint32_t tensor = started_.front();
    auto encoded = FinishFirst(encoder);
    status.Update(encoded.ok() ? take(tensor, *std::move(encoded)) : encoded.status());
  }
  return status;
}

const DeviceCodecs* DevicePushes::AnyCodecs() const {
  for (const auto& [device, codecs] : codecs_) {
    if (codecs.ok()) return codecs->get();
  }
  return nullptr;
}

DevicePushes::KeptThreadDevice::KeptThreadDevice(const DevicePushes& pushes)
    : codecs_(pushes.AnyCodecs()), device_(codecs_ == nullptr ? 0 : codecs_->ThreadDevice()) {}

DevicePushes::KeptThreadDevice::~KeptThreadDevice() {
  if (codecs_ != nullptr) codecs_->SetThreadDevice(device_);
}

}  // namespace psgd
