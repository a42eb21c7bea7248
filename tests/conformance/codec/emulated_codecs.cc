#include "tests/conformance/codec/emulated_codecs.h"

#include <cstring>
#include <vector>

#include "common/clock.h"
#include "compression/cuda/coders.h"
#include "compression/cuda/twin_encoder.h"
#include "tests/conformance/codec/host_queue.h"

namespace psgd::codec_test {
namespace {

class HostMemory {
 public:
  HostMemory() = default;
  explicit HostMemory(size_t bytes) : data_(std::make_unique<std::byte[]>(bytes)) {}
  void* data() const { return data_.get(); }

 private:
  std::unique_ptr<std::byte[]> data_;
};

// See twin_encoder.h. Work is done at launch.
class HostDevice {
 public:
  using Queue = HostQueue;
  using Memory = HostMemory;
  struct Event {};
  struct Timer {
    Time started, stopped;
  };

  explicit HostDevice(bool backwards) : runner_(backwards) {}

  absl::StatusOr<HostMemory> Allocate(size_t bytes) const { return HostMemory(bytes); }
  absl::StatusOr<HostMemory> AllocatePinned(size_t bytes) const { return HostMemory(bytes); }
  absl::StatusOr<Event> NewEvent() const { return Event(); }
  absl::Status Write(void* to, const void* from, size_t bytes) const {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  absl::Status Read(void* to, const void* from, size_t bytes) const {
    return Write(to, from, bytes);
  }
  absl::Status SetScratch(size_t) const { return absl::OkStatus(); }
  absl::Status Begin(void*) const { return absl::OkStatus(); }
  absl::Status TakeError() const { return absl::OkStatus(); }
  absl::Status Wait(Event*) const { return absl::OkStatus(); }
  absl::StatusOr<bool> Passed(Event*) const { return true; }
  absl::StatusOr<Timer> NewTimer() const { return Timer(); }
  absl::Status StartTimer(Timer* timer) const {
    timer->started = SteadyNow();
    return absl::OkStatus();
  }
  absl::Status StartCopies(std::span<const cuda::CopyOutBody> copies, Timer* timer, Event*) {
    cuda::CopyOut(runner_, copies);
    if (timer != nullptr) timer->stopped = SteadyNow();
    return absl::OkStatus();
  }
  absl::StatusOr<double> SecondsOf(Timer* timer) const {
    return psgd::Seconds(timer->stopped - timer->started);
  }
  HostRunner* runner() { return &runner_; }

 private:
  HostRunner runner_;
};

class HostArray final : public DeviceArray {
 public:
  explicit HostArray(std::span<const float> values) : values_(values.begin(), values.end()) {}
  float* data() const override { return values_.data(); }

 private:
  mutable std::vector<float> values_;
};

class EmulatedCodecs final : public DeviceCodecs {
 public:
  explicit EmulatedCodecs(bool backwards) : device_(backwards) {}
  absl::StatusOr<std::unique_ptr<DeviceEncoder>> NewEncoder(const TwinOptions& options) override {
    return cuda::TwinEncoder<HostDevice>::Create(options, &device_, &group_);
  }
  absl::Status Flush() override { return group_.Flush(); }
  absl::StatusOr<void*> EventOf(void* stream) override { return stream; }
  absl::Status CheckMemory(const void*) const override { return absl::OkStatus(); }
  int ThreadDevice() const override { return 0; }
  void SetThreadDevice(int) const override {}
  absl::StatusOr<std::unique_ptr<DeviceArray>> Upload(std::span<const float> values) override {
    return std::make_unique<HostArray>(values);
  }
  absl::Status CopyWithin(size_t) override { return absl::OkStatus(); }
  absl::Status CopyToHost(size_t) override { return absl::OkStatus(); }

 private:
  HostDevice device_;
  cuda::SliceGroup<HostDevice> group_{&device_};
};

}  // namespace

std::unique_ptr<DeviceCodecs> MakeEmulatedCodecs(bool backwards) {
  return std::make_unique<EmulatedCodecs>(backwards);
}

}  // namespace psgd::codec_test
