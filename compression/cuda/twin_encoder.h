// A DeviceEncoder on any device: its memory between steps, and the work of a step. The Device is a
// CUDA stream (device_codecs.cc) or the host loops of the tests:
//   Device::Queue                      see coder.h
//   Device::Memory                     device or pinned memory, freed with the object: data()
//   Device::Event                      a point in the device's work
//   Device::Timer                      two such points, and the time between them
//   Allocate, AllocatePinned(bytes)    return zeroed memory
//   Read, Write(to, from, bytes)       run after all earlier work; complete when they return
//   Fit(encode)                        makes the queue's scratch fit what encode(queue) launches
//   Begin(ready)                       makes later work of the queue wait for that event
//   StartRead(to, from, bytes, event)  as Read, but does not wait: sets the event when complete
//   Wait(event)
//   StartTimer, StopTimer(timer)       set the timer's points after all earlier work
//   SecondsOf(timer)                   waits for the second point
// Calls that can fail return absl::Status or StatusOr.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compression/cuda/coder.h"
#include "compression/cuda/finite.h"
#include "compression/cuda/norm.h"
#include "compression/device_codec.h"

namespace psgd::cuda {

template <typename Device>
class TwinEncoder final : public DeviceEncoder {
 public:
  // REQUIRES: `device` outlives the encoder.
  static absl::StatusOr<std::unique_ptr<DeviceEncoder>> Create(const TwinOptions& options,
                                                               Device* device) {
    std::unique_ptr<TwinEncoder> encoder(new TwinEncoder(device));
    PSGD_ASSIGN_OR_RETURN(encoder->done_, device->NewEvent());
    PSGD_RETURN_IF_ERROR(encoder->Use(options));
    return encoder;
  }

  absl::Status Start(const DeviceEncodeInput& input, void* ready) override {
    PSGD_RETURN_IF_ERROR(device_->Begin(ready));
    if (input.timed && !timer_) {
      PSGD_ASSIGN_OR_RETURN(timer_, device_->NewTimer());
    }
    if (input.timed) PSGD_RETURN_IF_ERROR(device_->StartTimer(&*timer_));
    input_ = input;
    // Some codecs would turn such values into finite numbers, and the residual would stay spoiled.
    SkipUnlessFinite(device_->queue(), InputOf(input).source, options_.elements, Bad());
    coder_->Encode(device_->queue(), InputOf(input), Output());
    device_->queue().SkipIf(nullptr);
    bound_ = coder_->Bound(input.step);
    likely_ = LikelyBytes(input.step);
    PSGD_RETURN_IF_ERROR(
        device_->StartRead(pinned_.data(), payload_.data(), kHeadBytes + likely_, &done_));
    return input.timed ? device_->StopTimer(&*timer_) : absl::OkStatus();
  }

  absl::StatusOr<ByteSpan> Finish() override {
    PSGD_RETURN_IF_ERROR(device_->Wait(&done_));
    std::byte* const head = static_cast<std::byte*>(pinned_.data());
    uint32_t bad = 0;
    std::memcpy(&bad, head + kBadAt, sizeof bad);
    raw_ = bad != 0;
    if (raw_) return ReadGradient();
    uint64_t bytes = bound_;
    if (coder_->varies()) std::memcpy(&bytes, head, sizeof bytes);
    if (bytes > bound_) {
      return absl::InternalError(
          absl::StrCat("a device made a payload of ", bytes, " bytes where ", bound_, " suffice"));
    }
    if (coder_->varies()) last_bytes_ = bytes;
    if (bytes > likely_) {
      const size_t come = kHeadBytes + likely_;
      const std::byte* const made = static_cast<const std::byte*>(payload_.data());
      PSGD_RETURN_IF_ERROR(device_->Read(head + come, made + come, bytes - likely_));
    }
    return ByteSpan(head + kHeadBytes, bytes);
  }

  bool raw() const override { return raw_; }

  absl::StatusOr<double> Seconds() override { return device_->SecondsOf(&*timer_); }

  absl::Status Use(const TwinOptions& options) override {
    options_ = options;
    coder_ = MakeCoder<typename Device::Queue>(options);
    last_bytes_ = 0;
    PSGD_RETURN_IF_ERROR(TakeMemory());
    if (options.state_arrays == 0) return absl::OkStatus();
    PSGD_RETURN_IF_ERROR(device_->Begin(nullptr));
    device_->queue().Zero(remembered(), options.state_arrays * options.elements);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<float>> CopyState() override {
    std::vector<float> arrays;
    if (residual() == nullptr && options_.state_arrays == 0) return arrays;
    const size_t elements = options_.elements, further = options_.state_arrays * elements;
    arrays.resize(elements + further);
    if (residual() != nullptr) {
      PSGD_RETURN_IF_ERROR(device_->Read(arrays.data(), residual(), elements * sizeof(float)));
    }
    if (further == 0) return arrays;
    PSGD_RETURN_IF_ERROR(
        device_->Read(arrays.data() + elements, remembered(), further * sizeof(float)));
    return arrays;
  }

  absl::Status LoadState(std::span<const float> arrays) override {
    const size_t elements = options_.elements, further = options_.state_arrays * elements;
    if (residual() != nullptr && arrays.size() >= elements) {
      PSGD_RETURN_IF_ERROR(device_->Write(residual(), arrays.data(), elements * sizeof(float)));
    }
    if (further == 0 || arrays.size() < elements + further) return absl::OkStatus();
    return device_->Write(remembered(), arrays.data() + elements, further * sizeof(float));
  }

  absl::StatusOr<double> SquaredNorm() override {
    if (residual() == nullptr) return 0;
    PSGD_RETURN_IF_ERROR(device_->Begin(nullptr));
    SumSquares(device_->queue(), residual(), options_.elements, Sum());
    double sum = 0;
    PSGD_RETURN_IF_ERROR(device_->Read(&sum, Sum(), sizeof sum));
    return sum;
  }

  bool takes_residual() const override { return residual() != nullptr; }

 private:
  // Header of the payload: its length, if that varies, and whether the gradient is not finite.
  static constexpr size_t kHeadBytes = 16, kBadAt = 8;
  static constexpr size_t kSlackBytes = 4096;

  explicit TwinEncoder(Device* device) : device_(device) {}

  // Allocates what no earlier codec needed. Existing memory stays: a residual is kept for good.
  absl::Status TakeMemory() {
    const size_t array = options_.elements * sizeof(float);
    if (options_.keeps_residual && residual() == nullptr) {
      PSGD_ASSIGN_OR_RETURN(residual_, device_->Allocate(array));
    }
    if (options_.state_arrays > most_arrays_) {
      PSGD_ASSIGN_OR_RETURN(remembered_, device_->Allocate(options_.state_arrays * array));
      most_arrays_ = options_.state_arrays;
    }
    // If the bound changes over the steps, its maximum is at the first or at the last step.
    constexpr uint64_t kFirst = 0, kLast = std::numeric_limits<uint64_t>::max();
    const size_t bytes =
        kHeadBytes + std::max(coder_->Bound(kFirst), coder_->Bound(kLast)) + sizeof(uint64_t);
    if (bytes > payload_bytes_) {
      PSGD_ASSIGN_OR_RETURN(payload_, device_->Allocate(bytes));
      PSGD_ASSIGN_OR_RETURN(pinned_, device_->AllocatePinned(bytes));
      payload_bytes_ = bytes;
    }
    for (uint64_t step : {kFirst, kLast}) {
      DeviceEncodeInput input;
      input.step = step;
      PSGD_RETURN_IF_ERROR(
          device_->Fit([&](auto& queue) { coder_->Encode(queue, InputOf(input), Output()); }));
    }
    return device_->Fit(
        [&](auto& queue) { SumSquares(queue, residual(), options_.elements, Sum()); });
  }

  // The payload's length is unknown when its copy is launched. A length like the last one usually
  // suffices.
  size_t LikelyBytes(uint64_t step) const {
    const size_t likely = coder_->Likely(step);
    if (last_bytes_ == 0) return likely;
    return std::min(likely, last_bytes_ + last_bytes_ / 8 + kSlackBytes);
  }

  CoderInput InputOf(const DeviceEncodeInput& input) const {
    CoderInput made;
    made.source = {input.gradient, input.weights, input.weight_decay, residual(),
                   options_.residual_decay};
    made.state = options_.state_arrays > 0 ? remembered() : nullptr;
    made.key = input.key;
    made.step = input.step;
    return made;
  }
  CoderOutput Output() const {
    std::byte* const head = static_cast<std::byte*>(payload_.data());
    return {head + kHeadBytes, reinterpret_cast<uint64_t*>(head)};
  }
  // Uses the memory of the payload. REQUIRES: the call is between Finish and Start.
  double* Sum() const { return static_cast<double*>(payload_.data()); }
  uint32_t* Bad() const {
    return reinterpret_cast<uint32_t*>(static_cast<std::byte*>(payload_.data()) + kBadAt);
  }
  // Returns the gradient of the last Start, with weight decay, as the host would encode it.
  absl::StatusOr<ByteSpan> ReadGradient() {
    const size_t bytes = options_.elements * sizeof(float);
    gradient_.resize(options_.elements);
    PSGD_RETURN_IF_ERROR(device_->Read(gradient_.data(), input_.gradient, bytes));
    if (input_.weights != nullptr) {
      std::vector<float> weights(options_.elements);
      PSGD_RETURN_IF_ERROR(device_->Read(weights.data(), input_.weights, bytes));
      for (size_t i = 0; i < weights.size(); ++i) gradient_[i] += input_.weight_decay * weights[i];
    }
    return AsBytes(gradient_);
  }
  float* residual() const { return static_cast<float*>(residual_.data()); }
  float* remembered() const { return static_cast<float*>(remembered_.data()); }

  Device* const device_;
  TwinOptions options_;
  std::unique_ptr<Coder<typename Device::Queue>> coder_;
  typename Device::Event done_;
  std::optional<typename Device::Timer> timer_;
  typename Device::Memory residual_;    // none until a codec keeps one
  typename Device::Memory remembered_;  // what codecs remember beside it
  typename Device::Memory payload_, pinned_;
  DeviceEncodeInput input_;      // of the last Start
  std::vector<float> gradient_;  // of input_, if it is not finite
  bool raw_ = false;
  size_t most_arrays_ = 0, payload_bytes_ = 0;  // sizes of the allocated memory
  size_t bound_ = 0, likely_ = 0;               // of the last Start
  size_t last_bytes_ = 0;  // of the last payload of varying length; 0: none yet
};

}  // namespace psgd::cuda
