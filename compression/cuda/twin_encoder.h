// A DeviceEncoder on any device: what lies there between steps, and what a step does. The Device is
// a stream of CUDA's (device_codecs.cc) or the host's loops of the tests:
//   Device::Queue                     see coder.h
//   Device::Memory                    device or pinned memory, freed with it: data()
//   Device::Event                     a point in the device's work
//   Allocate, AllocatePinned(bytes)   zeroed
//   Read, Write(to, from, bytes)      between device and host, behind all work before; done on
//   return Fit(encode)                       makes the queue's scratch fit what encode(queue)
//   launches Begin(ready)                      the queue's work from now on waits for that event
//   StartRead(to, from, bytes, event) as Read, but behind the event when done
//   Wait(event)
// Calls that can fail return absl::Status or StatusOr.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "compression/cuda/make_coder.h"
#include "compression/device_codec.h"

namespace psgd::cuda {

template <typename Device>
class TwinEncoder final : public DeviceEncoder {
 public:
  // `device` outlives it.
  static absl::StatusOr<std::unique_ptr<DeviceEncoder>> Create(const TwinOptions& options,
                                                               Device* device) {
    std::unique_ptr<TwinEncoder> encoder(new TwinEncoder(options, device));
    PSGD_RETURN_IF_ERROR(encoder->Allocate());
    return encoder;
  }

  absl::Status Start(const DeviceEncodeInput& input, void* ready) override {
    PSGD_RETURN_IF_ERROR(device_->Begin(ready));
    coder_->Encode(device_->queue(), InputOf(input), Output());
    bound_ = coder_->Bound(input.step);
    likely_ = coder_->Likely(input.step);
    return device_->StartRead(pinned_.data(), payload_.data(), kHeadBytes + likely_, &done_);
  }

  absl::StatusOr<ByteSpan> Finish() override {
    PSGD_RETURN_IF_ERROR(device_->Wait(&done_));
    std::byte* const head = static_cast<std::byte*>(pinned_.data());
    uint64_t bytes = bound_;
    if (coder_->varies()) std::memcpy(&bytes, head, sizeof bytes);
    if (bytes > bound_) {
      return absl::InternalError(
          absl::StrCat("a device made a payload of ", bytes, " bytes where ", bound_, " suffice"));
    }
    if (bytes > likely_) {
      const size_t come = kHeadBytes + likely_;
      const std::byte* const made = static_cast<const std::byte*>(payload_.data());
      PSGD_RETURN_IF_ERROR(device_->Read(head + come, made + come, bytes - likely_));
    }
    return ByteSpan(head + kHeadBytes, bytes);
  }

  absl::StatusOr<std::vector<float>> CopyState() override {
    std::vector<float> arrays;
    if (!options_.keeps_residual && options_.state_arrays == 0) return arrays;
    const size_t all = (1 + options_.state_arrays) * options_.elements;
    arrays.resize(all);
    const size_t from = options_.keeps_residual ? 0 : options_.elements;
    PSGD_RETURN_IF_ERROR(
        device_->Read(arrays.data() + from, state() + from, (all - from) * sizeof(float)));
    return arrays;
  }

  absl::Status LoadState(std::span<const float> arrays) override {
    const size_t elements = options_.elements, all = (1 + options_.state_arrays) * elements;
    if (options_.keeps_residual && arrays.size() >= elements) {
      PSGD_RETURN_IF_ERROR(device_->Write(state(), arrays.data(), elements * sizeof(float)));
    }
    if (options_.state_arrays == 0 || arrays.size() < all) return absl::OkStatus();
    return device_->Write(state() + elements, arrays.data() + elements,
                          (all - elements) * sizeof(float));
  }

 private:
  // Before the payload: its length, where that varies.
  static constexpr size_t kHeadBytes = 16;

  TwinEncoder(const TwinOptions& options, Device* device)
      : options_(options), device_(device), coder_(MakeCoderFor<typename Device::Queue>(options)) {}

  absl::Status Allocate() {
    // What a step takes shrinks, if it changes: it is the most at the beginning or at the end.
    constexpr uint64_t kFirst = 0, kLast = std::numeric_limits<uint64_t>::max();
    const size_t bytes =
        kHeadBytes + std::max(coder_->Bound(kFirst), coder_->Bound(kLast)) + sizeof(uint64_t);
    const size_t floats = (1 + options_.state_arrays) * options_.elements;
    PSGD_ASSIGN_OR_RETURN(state_, device_->Allocate(floats * sizeof(float)));
    PSGD_ASSIGN_OR_RETURN(payload_, device_->Allocate(bytes));
    PSGD_ASSIGN_OR_RETURN(pinned_, device_->AllocatePinned(bytes));
    PSGD_ASSIGN_OR_RETURN(done_, device_->NewEvent());
    for (uint64_t step : {kFirst, kLast}) {
      DeviceEncodeInput input;
      input.step = step;
      PSGD_RETURN_IF_ERROR(
          device_->Fit([&](auto& queue) { coder_->Encode(queue, InputOf(input), Output()); }));
    }
    return absl::OkStatus();
  }

  CoderInput InputOf(const DeviceEncodeInput& input) const {
    CoderInput made;
    made.source = {input.gradient, input.weights, input.weight_decay,
                   options_.keeps_residual ? state() : nullptr, options_.residual_decay};
    made.state = options_.state_arrays > 0 ? state() + options_.elements : nullptr;
    made.key = input.key;
    made.step = input.step;
    return made;
  }
  CoderOutput Output() const {
    std::byte* const head = static_cast<std::byte*>(payload_.data());
    return {head + kHeadBytes, reinterpret_cast<uint64_t*>(head)};
  }
  float* state() const { return static_cast<float*>(state_.data()); }

  const TwinOptions options_;
  Device* const device_;
  const std::unique_ptr<Coder<typename Device::Queue>> coder_;
  typename Device::Memory state_;  // the residual, and what the codec remembers
  typename Device::Memory payload_, pinned_;
  typename Device::Event done_;
  size_t bound_ = 0, likely_ = 0;  // of the last Start
};

}  // namespace psgd::cuda
