// Codecs for gradients in device memory: a twin of the encoder and of its error feedback. Payloads
// come to the host; gradients and residuals stay on the device. The twin lives in a plugin without
// protobuf, so it takes TwinOptions (compression/cuda/options.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/bytes.h"
#include "common/philox.h"
#include "common/status.h"
#include "compression/cuda/options.h"

namespace psgd {

struct DeviceEncodeInput {
  // Device memory, the slice's elements.
  const float* gradient = nullptr;
  // weight_decay * weights is added to the gradient first. Null: no weight decay.
  const float* weights = nullptr;
  float weight_decay = 0;
  // See EncodeInput.
  PhiloxKey key;
  uint64_t step = 0;
  // Whether to time the step, for Seconds.
  bool timed = false;
};

// Encodes one slice of one worker, step after step. Payloads and residual are the same as those of
// ErrorFeedback around an Encoder. Not thread-safe: all encoders of a DeviceCodecs share its
// stream.
class DeviceEncoder {
 public:
  virtual ~DeviceEncoder() = default;
  // Notes the work that makes the payload and copies it to the host, after the event `ready` (null:
  // at once). It is launched together with that of other encoders behind the same event: when one
  // behind another event starts, when these have many elements, or when any encoder finishes.
  // REQUIRES: Finish was called for the last Start; the memory that `input` points to does not
  // change until Finish.
  virtual absl::Status Start(const DeviceEncodeInput& input, void* ready) = 0;
  // Waits for the payload of the last Start. The payload is valid until the next Start.
  virtual absl::StatusOr<ByteSpan> Finish() = 0;
  // Whether Finish would not wait: the work of the last Start was launched, and is done.
  virtual absl::StatusOr<bool> IsDone() = 0;
  // Whether Finish returned the gradient, with its weight decay, because it is not finite. Residual
  // and encoder state are then unchanged. Sent as `none`, the gradient is refused by the shard.
  virtual bool raw() const = 0;
  // Seconds that the device took for that payload and its copy to the host, including other work
  // that ran meanwhile: its share, by elements, of those of the encoders launched together.
  // REQUIRES: Finish was called; the step was timed.
  virtual absl::StatusOr<double> Seconds() = 0;

  // See ErrorFeedback. Use allocates nothing for options that it was given before. REQUIRES: the
  // call is not between Start and Finish; the options have the same number of elements.
  virtual absl::Status Use(const TwinOptions& options) = 0;
  virtual absl::StatusOr<std::vector<float>> CopyState() = 0;
  virtual absl::Status LoadState(std::span<const float> arrays) = 0;
  virtual absl::StatusOr<double> SquaredNorm() = 0;
  virtual bool takes_residual() const = 0;
};

// Numbers in device memory, freed with this object.
class DeviceArray {
 public:
  virtual ~DeviceArray() = default;
  virtual float* data() const = 0;
};

// The codecs of one device and the stream that they work on. Not thread-safe. REQUIRES: the object
// outlives what it makes.
class DeviceCodecs {
 public:
  virtual ~DeviceCodecs() = default;
  virtual absl::StatusOr<std::unique_ptr<DeviceEncoder>> NewEncoder(const TwinOptions& options) = 0;
  // Launches what encoders noted. For the last of a step: nothing behind another event follows.
  virtual absl::Status Flush() = 0;
  // An event for Start: the encoder's launches follow all that `stream` (a cudaStream_t; null: the
  // default stream) has been given by now. Each stream has one event, which later calls set again.
  virtual absl::StatusOr<void*> EventOf(void* stream) = 0;
  // An error if `memory`, which a program names, is not of this device.
  virtual absl::Status CheckMemory(const void* memory) const = 0;
  // The calling thread's device. Other calls, also of encoders, make it the device of the codecs.
  virtual int ThreadDevice() const = 0;
  virtual void SetThreadDevice(int device) const = 0;
  virtual absl::StatusOr<std::unique_ptr<DeviceArray>> Upload(std::span<const float> values) = 0;
  // Copies `bytes` bytes from one place of the device to another. Returns when the copy is done.
  virtual absl::Status CopyWithin(size_t bytes) = 0;
  // The same from the device to pinned memory of the host.
  virtual absl::Status CopyToHost(size_t bytes) = 0;
};

// The function that the plugin exports as `psgd_make_device_codecs`; see MakeBackendFunction.
using MakeDeviceCodecsFunction = bool (*)(uint32_t interface, int device,
                                          absl::StatusOr<std::unique_ptr<DeviceCodecs>>* made);

}  // namespace psgd
