// The codecs of a queued device: the kernels' own sources, run as loops on a stream of their own.
#include <cstring>

#include "common/clock.h"
#include "compression/cuda/coders.h"
#include "compression/cuda/twin_encoder.h"
#include "tests/conformance/codec/host_queue.h"
#include "tests/fakes/queued_device/devices.h"

namespace psgd::queued {
namespace {

// See coder.h.
class CodecQueue {
 public:
  explicit CodecQueue(QueuesPtr queues) : queues_(std::move(queues)) { Begin(); }

  // Scratch memory lives until the launches that use it have run.
  void Begin() { loops_ = std::make_shared<codec_test::HostQueue>(/*backwards=*/false); }

  void SkipIf(const uint32_t* flag) {
    Put([=, loops = loops_] { loops->SkipIf(flag); });
  }
  template <typename Body>
  void Launch(uint32_t blocks, const Body& body) {
    Put([=, loops = loops_] { loops->Launch(blocks, body); });
  }
  template <typename Flag>
  void Select(uint32_t count, const Flag& flag, uint32_t* out, uint32_t* found) {
    Put([=, loops = loops_] { loops->Select(count, flag, out, found); });
  }
  template <typename Of>
  void Scan(uint32_t count, const Of& of, uint32_t* out) {
    Put([=, loops = loops_] { loops->Scan(count, of, out); });
  }
  template <typename T>
  void Zero(T* at, size_t count) {
    Put([=, loops = loops_] { loops->Zero(at, count); });
  }
  template <typename T>
  T* Scratch(size_t count) {
    return loops_->template Scratch<T>(count);
  }

 private:
  void Put(Work work) { queues_->Put(kCodecs, Asked::kLaunch, std::move(work)); }

  const QueuesPtr queues_;
  std::shared_ptr<codec_test::HostQueue> loops_;
};

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
  using Queue = CodecQueue;
  using Memory = CodecMemory;
  using Event = EventPtr;
  struct Timer {
    Time started, stopped;
    EventPtr done = std::make_shared<queued::Event>();
  };

  explicit CodecDevice(QueuesPtr queues) : queues_(std::move(queues)), queue_(queues_) {}

  absl::StatusOr<CodecMemory> Allocate(size_t bytes) const { return CodecMemory(queues_, bytes); }
  absl::StatusOr<CodecMemory> AllocatePinned(size_t bytes) const { return Allocate(bytes); }
  absl::StatusOr<EventPtr> NewEvent() const { return std::make_shared<queued::Event>(); }
  absl::Status Write(void* to, const void* from, size_t bytes) const {
    return Copy(Asked::kCopyIn, to, from, bytes);
  }
  absl::Status Read(void* to, const void* from, size_t bytes) const {
    return Copy(Asked::kCopyOut, to, from, bytes);
  }
  template <typename Encode>
  absl::Status Fit(Encode) {
    return absl::OkStatus();
  }
  absl::Status Begin(void* ready) {
    queue_.Begin();
    if (ready != nullptr) {
      queues_->Await(kCodecs, static_cast<queued::Event*>(ready)->shared_from_this());
    }
    return absl::OkStatus();
  }
  absl::Status StartRead(void* to, const void* from, size_t bytes, EventPtr* event) const {
    queues_->Put(kCodecs, Asked::kCopyOut, [=] { std::memcpy(to, from, bytes); });
    queues_->Set(kCodecs, *event);
    return absl::OkStatus();
  }
  absl::Status Wait(EventPtr* event) const {
    queues_->Wait(**event);
    return absl::OkStatus();
  }
  absl::StatusOr<Timer> NewTimer() const { return Timer(); }
  absl::Status StartTimer(Timer* timer) const {
    queues_->Put(kCodecs, Asked::kLaunch, [=] { timer->started = SteadyNow(); });
    return absl::OkStatus();
  }
  absl::Status StopTimer(Timer* timer) const {
    queues_->Put(kCodecs, Asked::kLaunch, [=] { timer->stopped = SteadyNow(); });
    queues_->Set(kCodecs, timer->done);
    return absl::OkStatus();
  }
  absl::StatusOr<double> SecondsOf(Timer* timer) const {
    queues_->Wait(*timer->done);
    return psgd::Seconds(timer->stopped - timer->started);
  }
  CodecQueue& queue() { return queue_; }

 private:
  absl::Status Copy(Asked::Kind kind, void* to, const void* from, size_t bytes) const {
    queues_->Put(kCodecs, kind, [=] {
      if (bytes > 0) std::memcpy(to, from, bytes);
    });
    queues_->Wait(kCodecs);
    return absl::OkStatus();
  }

  const QueuesPtr queues_;
  CodecQueue queue_;
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

class QueuedCodecs final : public DeviceCodecs {
 public:
  explicit QueuedCodecs(QueuesPtr queues) : device_(std::move(queues)) {}
  absl::StatusOr<std::unique_ptr<DeviceEncoder>> NewEncoder(const TwinOptions& options) override {
    return cuda::TwinEncoder<CodecDevice>::Create(options, &device_);
  }
  absl::StatusOr<std::unique_ptr<DeviceArray>> Upload(std::span<const float> values) override {
    return std::make_unique<CodecArray>(device_, values);
  }
  absl::Status CopyWithin(size_t) override { return absl::OkStatus(); }

 private:
  CodecDevice device_;
};

}  // namespace
}  // namespace psgd::queued

extern "C" __attribute__((visibility("default"))) bool psgd_make_device_codecs(
    uint32_t interface, int device, absl::StatusOr<std::unique_ptr<psgd::DeviceCodecs>>* made) {
  using namespace psgd::queued;
  if (interface != PSGD_BACKEND_INTERFACE) return false;
  *made = std::make_unique<QueuedCodecs>(FindDevice(device));
  return true;
}
