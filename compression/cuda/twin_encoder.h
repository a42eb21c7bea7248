// A DeviceEncoder on any device: its memory between steps, and the work of a step. The Device is a
// CUDA stream (device_codecs.cc) or the host loops of the tests:
//   Device::Queue                      see coder.h; it takes runner()
//   Device::Memory                     device or pinned memory, freed with the object: data()
//   Device::Event                      a point in the device's work
//   Device::Timer                      two such points, and the time between them
//   Allocate, AllocatePinned(bytes)    return zeroed memory
//   Read, Write(to, from, bytes)       run after all earlier work; complete when they return
//   SetScratch(bytes)                  makes scratch memory for the queue's launches
//   Begin(ready)                       makes later work wait for that event, if it is not null
//   TakeError()                        of the launches since the last call
//   StartTimer(timer)                  sets the timer's first point after all earlier work
//   StartCopies(copies, timer, event)  makes copies to the host (CopyOutBody) after all earlier
//                                      work, then sets the timer's second point, if any, and the
//                                      event
//   Wait(event)
//   Passed(event)                      whether Wait would return at once
//   SecondsOf(timer)                   waits for the second point
// Calls that can fail return absl::Status or StatusOr.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "compression/cuda/coder.h"
#include "compression/cuda/finite.h"
#include "compression/cuda/norm.h"
#include "compression/cuda/slice_group.h"
#include "compression/device_codec.h"

namespace psgd::cuda {

template <typename Device>
class TwinEncoder final : public DeviceEncoder {
 public:
  // REQUIRES: `device` and `group` outlive the encoder.
  static absl::StatusOr<std::unique_ptr<DeviceEncoder>> Create(const TwinOptions& options,
                                                               Device* device,
                                                               SliceGroup<Device>* group) {
    std::unique_ptr<TwinEncoder> encoder(new TwinEncoder(device, group));
    PSGD_RETURN_IF_ERROR(encoder->Use(options));
    return encoder;
  }
  ~TwinEncoder() override { group_->Remove(flight_.get(), scratch_); }

  absl::Status Start(const DeviceEncodeInput& input, void* ready) override {
    input_ = input;
    bound_ = coder_->Bound(input.step);
    typename SliceGroup<Device>::Slice slice;
    slice.elements = options_.elements;
    slice.scratch = scratch_;
    slice.timed = input.timed;
    slice.copy = {Head(), static_cast<PayloadHead*>(pinned_.data()), bound_, coder_->varies(),
                  ++started_};
    const auto encode = [&](typename Device::Queue& queue) {
      // Some codecs would turn such values into finite numbers, and the residual would stay
      // spoiled.
      SkipUnlessFinite(queue, InputOf(input).source, options_.elements, &Head()->bad, started_);
      coder_->Encode(queue, InputOf(input), Output());
    };
    PSGD_ASSIGN_OR_RETURN(flight_, group_->Start(slice, ready, encode));
    return absl::OkStatus();
  }

  absl::StatusOr<ByteSpan> Finish() override {
    PSGD_RETURN_IF_ERROR(group_->Wait(flight_.get()));
    const auto* const head = static_cast<const PayloadHead*>(pinned_.data());
    raw_ = head->bad == started_;
    if (raw_) return ReadGradient();
    const uint64_t bytes = coder_->varies() ? head->bytes : bound_;
    if (bytes > bound_) {
      return absl::InternalError(
          absl::StrCat("a device made a payload of ", bytes, " bytes where ", bound_, " suffice"));
    }
    return ByteSpan(reinterpret_cast<const std::byte*>(head + 1), bytes);
  }

  absl::StatusOr<bool> IsDone() override { return group_->IsDone(flight_.get()); }

  bool raw() const override { return raw_; }

  absl::StatusOr<double> Seconds() override {
    PSGD_ASSIGN_OR_RETURN(const double seconds, group_->SecondsOf(flight_.get()));
    const auto all = static_cast<double>(flight_->elements);
    return all == 0 ? seconds : seconds * options_.elements / all;
  }

  absl::Status Use(const TwinOptions& options) override {
    options_ = options;
    coder_ = MakeCoder<typename Device::Queue>(options);
    PSGD_RETURN_IF_ERROR(TakeMemory());
    if (options.state_arrays == 0) return absl::OkStatus();
    return group_->Run(
        [&](auto& queue) { queue.Zero(remembered(), options.state_arrays * options.elements); });
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
    PSGD_RETURN_IF_ERROR(group_->Run(
        [&](auto& queue) { StoreSquaredNorm(queue, residual(), options_.elements, Sum()); }));
    double sum = 0;
    PSGD_RETURN_IF_ERROR(device_->Read(&sum, Sum(), sizeof sum));
    return sum;
  }

  bool takes_residual() const override { return residual() != nullptr; }

 private:
  TwinEncoder(Device* device, SliceGroup<Device>* group) : device_(device), group_(group) {}

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
    // Whole pieces of the size of the head.
    const size_t most = std::max(coder_->Bound(kFirst), coder_->Bound(kLast));
    const size_t bytes = (2 + most / sizeof(PayloadHead)) * sizeof(PayloadHead);
    if (bytes > payload_bytes_) {
      PSGD_ASSIGN_OR_RETURN(payload_, device_->Allocate(bytes));
      PSGD_ASSIGN_OR_RETURN(pinned_, device_->AllocatePinned(bytes));
      payload_bytes_ = bytes;
    }
    const auto fit = [&](auto encode) -> absl::Status {
      PSGD_ASSIGN_OR_RETURN(scratch_, group_->Fit(scratch_, encode));
      return absl::OkStatus();
    };
    for (uint64_t step : {kFirst, kLast}) {
      DeviceEncodeInput input;
      input.step = step;
      PSGD_RETURN_IF_ERROR(
          fit([&](auto& queue) { coder_->Encode(queue, InputOf(input), Output()); }));
    }
    return fit([&](auto& queue) { StoreSquaredNorm(queue, residual(), options_.elements, Sum()); });
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
  CoderOutput Output() const { return {reinterpret_cast<std::byte*>(Head() + 1), &Head()->bytes}; }
  // Uses the memory of the payload. REQUIRES: the call is between Finish and Start.
  double* Sum() const { return static_cast<double*>(payload_.data()); }
  PayloadHead* Head() const { return static_cast<PayloadHead*>(payload_.data()); }
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
  SliceGroup<Device>* const group_;
  TwinOptions options_;
  std::unique_ptr<Coder<typename Device::Queue>> coder_;
  typename SliceGroup<Device>::FlightPtr flight_;  // of the last Start
  typename Device::Memory residual_;               // none until a codec keeps one
  typename Device::Memory remembered_;             // what codecs remember beside it
  typename Device::Memory payload_, pinned_;
  DeviceEncodeInput input_;      // of the last Start
  std::vector<float> gradient_;  // of input_, if it is not finite
  uint64_t started_ = 0;         // calls of Start
  bool raw_ = false;
  size_t most_arrays_ = 0, payload_bytes_ = 0;  // sizes of the allocated memory
  size_t scratch_ = 0;                          // bytes that the coders take at most
  size_t bound_ = 0;                            // of the last Start
};

}  // namespace psgd::cuda
