// The codecs of a queued device: the kernels' own sources, run as loops on a stream of their own.
#include <cstring>
#include <map>

#include "common/clock.h"
#include "compression/cuda/coders.h"
#include "compression/cuda/twin_encoder.h"
#include "tests/conformance/codec/host_queue.h"
#include "tests/fakes/queued_device/devices.h"

namespace psgd::queued {
namespace {

// Memory that is freed when no waiting work can use it.
class CodecMemory {
 public:
  CodecMemory() = default;
  CodecMemory(QueuesPtr queues, size_t bytes)
      : queues_(std::move(queues)), data_(std::make_unique<std::byte[]>(bytes)) {}
  CodecMemory(CodecMemory&&) = default;
  CodecMemory& operator=(CodecMemory&&) = default;
  ~CodecMemory() {
    if (data_ != nullptr) queues_->WaitForAll();
  }
  void* data() const { return data_.get(); }

 private:
  QueuesPtr queues_;
  std::unique_ptr<std::byte[]> data_;
};

// See twin_encoder.h. It corresponds to the class in compression/cuda/device_codecs.cc.
class CodecDevice {
 public:
  using Queue = codec_test::HostQueue;
  using Memory = CodecMemory;
  using Event = EventPtr;
  struct Timer {
    Time started, stopped;
    EventPtr done = std::make_shared<queued::Event>();
  };

  explicit CodecDevice(QueuesPtr queues)
      : queues_(std::move(queues)), runner_(/*backwards=*/false, [this](Work work) {
          queues_->Put(kCodecs, Asked::kLaunch, std::move(work));
        }) {}
  CodecDevice(const CodecDevice&) = delete;
  CodecDevice& operator=(const CodecDevice&) = delete;

  absl::StatusOr<CodecMemory> Allocate(size_t bytes) const { return CodecMemory(queues_, bytes); }
  absl::StatusOr<CodecMemory> AllocatePinned(size_t bytes) const { return Allocate(bytes); }
  absl::StatusOr<EventPtr> NewEvent() const { return std::make_shared<queued::Event>(); }
  absl::Status Write(void* to, const void* from, size_t bytes) const {
    return Copy(Asked::kCopyIn, to, from, bytes);
  }
  absl::Status Read(void* to, const void* from, size_t bytes) const {
    return Copy(Asked::kCopyOut, to, from, bytes);
  }
  absl::Status SetScratch(size_t) const { return absl::OkStatus(); }
  absl::Status Begin(void* ready) const {
    if (ready != nullptr) {
      queues_->Await(kCodecs, static_cast<queued::Event*>(ready)->shared_from_this());
    }
    return absl::OkStatus();
  }
  absl::Status TakeError() const { return absl::OkStatus(); }
  absl::Status Wait(EventPtr* event) const {
    queues_->Wait(**event);
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Passed(EventPtr* event) const { return queues_->Passed(**event); }
  absl::StatusOr<Timer> NewTimer() const { return Timer(); }
  absl::Status StartTimer(Timer* timer) const {
    queues_->Put(kCodecs, Asked::kLaunch, [=] { timer->started = SteadyNow(); });
    return absl::OkStatus();
  }
  absl::Status StartCopies(std::span<const cuda::CopyOutBody> copies, Timer* timer,
                           EventPtr* done) {
    cuda::CopyOut(runner_, copies);
    if (timer != nullptr) {
      queues_->Put(kCodecs, Asked::kLaunch, [=] { timer->stopped = SteadyNow(); });
      queues_->Set(kCodecs, timer->done);
    }
    queues_->Set(kCodecs, *done);
    return absl::OkStatus();
  }
  absl::StatusOr<double> SecondsOf(Timer* timer) const {
    queues_->Wait(*timer->done);
    return psgd::Seconds(timer->stopped - timer->started);
  }
  codec_test::HostRunner* runner() { return &runner_; }
  Queues* queues() const { return queues_.get(); }

 private:
  absl::Status Copy(Asked::Kind kind, void* to, const void* from, size_t bytes) const {
    queues_->Put(kCodecs, kind, [=] {
      if (bytes > 0) std::memcpy(to, from, bytes);
    });
    queues_->Wait(kCodecs);
    return absl::OkStatus();
  }

  const QueuesPtr queues_;
  codec_test::HostRunner runner_;
};

class CodecArray final : public DeviceArray {
 public:
  CodecArray(const CodecDevice& device, std::span<const float> values)
      : memory_(device.Allocate(values.size_bytes()).value()) {
    (void)device.Write(memory_.data(), values.data(), values.size_bytes());
  }
  float* data() const override { return static_cast<float*>(memory_.data()); }

 private:
  const CodecMemory memory_;
};

thread_local int thread_device = 0;

class QueuedCodecs final : public DeviceCodecs {
 public:
  QueuedCodecs(int index, QueuesPtr queues) : index_(index), device_(std::move(queues)) {}
  absl::StatusOr<std::unique_ptr<DeviceEncoder>> NewEncoder(const TwinOptions& options) override {
    SetThreadDevice(index_);
    return cuda::TwinEncoder<CodecDevice>::Create(options, &device_, &group_);
  }
  absl::Status Flush() override { return group_.Flush(); }
  // A stream is its number.
  absl::StatusOr<void*> EventOf(void* stream) override {
    SetThreadDevice(index_);
    const auto number = static_cast<int>(reinterpret_cast<intptr_t>(stream));
    EventPtr& event = events_[number];
    if (event == nullptr) event = std::make_shared<queued::Event>();
    device_.queues()->Set(number, event);
    return event.get();
  }
  absl::Status CheckMemory(const void* memory) const override {
    if (memory != GetFaults().foreign_memory) return absl::OkStatus();
    return InvalidArgumentError("the address is not in memory of CUDA device ", index_);
  }
  int ThreadDevice() const override { return thread_device; }
  void SetThreadDevice(int device) const override { thread_device = device; }
  absl::StatusOr<std::unique_ptr<DeviceArray>> Upload(std::span<const float> values) override {
    return std::make_unique<CodecArray>(device_, values);
  }
  absl::Status CopyWithin(size_t) override { return absl::OkStatus(); }
  absl::Status CopyToHost(size_t) override { return absl::OkStatus(); }

 private:
  const int index_;
  CodecDevice device_;
  cuda::SliceGroup<CodecDevice> group_{&device_};
  std::map<int, EventPtr> events_;  // by stream of the program
};

}  // namespace
}  // namespace psgd::queued

// For tests: the device of the calling thread.
extern "C" __attribute__((visibility("default"))) int psgd_queued_thread_device() {
  return psgd::queued::thread_device;
}

extern "C" __attribute__((visibility("default"))) bool psgd_make_device_codecs(
    uint32_t interface, int device, absl::StatusOr<std::unique_ptr<psgd::DeviceCodecs>>* made) {
  using namespace psgd::queued;
  if (interface != PSGD_BACKEND_INTERFACE) return false;
  *made = std::make_unique<QueuedCodecs>(device, FindDevice(device));
  return true;
}
