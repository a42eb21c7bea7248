// Codecs whose gradients lie in the memory of a device: its twin of an encoder and of the error
// feedback around it. Payloads come to the host, gradients and residuals stay. The twin lives in a
// plugin without protobuf, so it takes TwinOptions (compression/cuda/options.h).
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
  // weight_decay * weights is added to the gradient first. Null: nothing is.
  const float* weights = nullptr;
  float weight_decay = 0;
  // See EncodeInput.
  PhiloxKey key;
  uint64_t step = 0;
  // So that Seconds says how long it takes.
  bool timed = false;
};

// Encodes one slice of one worker, step after step, as ErrorFeedback around an Encoder does: the
// same payloads, and the same residual. Not thread-safe, and all of one DeviceCodecs share its
// stream.
class DeviceEncoder {
 public:
  virtual ~DeviceEncoder() = default;
  // Launches what makes the payload and brings it to the host, once the event `ready` (null: at
  // once) has come. What `input` points to stays as it is until Finish.
  virtual absl::Status Start(const DeviceEncodeInput& input, void* ready) = 0;
  // Waits for the payload of the last Start; it is good until the next.
  virtual absl::StatusOr<ByteSpan> Finish() = 0;
  // Whether that is no payload but the gradient, with its weight decay, because it is not finite:
  // residual and what the codec remembers are as they were, and a shard to which it comes as none
  // refuses it.
  virtual bool raw() const = 0;
  // What the device spent on that payload and its way to the host, beside whatever else it did.
  // REQUIRES: after Finish; it was timed.
  virtual absl::StatusOr<double> Seconds() = 0;

  // See ErrorFeedback. Use takes no memory for options that it was given before. REQUIRES: it is
  // not between Start and Finish; of as many elements.
  virtual absl::Status Use(const TwinOptions& options) = 0;
  virtual absl::StatusOr<std::vector<float>> CopyState() = 0;
  virtual absl::Status LoadState(std::span<const float> arrays) = 0;
  virtual absl::StatusOr<double> SquaredNorm() = 0;
  virtual bool takes_residual() const = 0;
};

// Numbers in the memory of a device, freed with this object.
class DeviceArray {
 public:
  virtual ~DeviceArray() = default;
  virtual float* data() const = 0;
};

// The codecs of one device, and the stream that they work on. Not thread-safe; outlives what it
// makes.
class DeviceCodecs {
 public:
  virtual ~DeviceCodecs() = default;
  virtual absl::StatusOr<std::unique_ptr<DeviceEncoder>> NewEncoder(const TwinOptions& options) = 0;
  virtual absl::StatusOr<std::unique_ptr<DeviceArray>> Upload(std::span<const float> values) = 0;
  // Copies that many bytes from one place of the device to another; returns when that is done.
  virtual absl::Status CopyWithin(size_t bytes) = 0;
};

// What the plugin exports as `psgd_make_device_codecs`; see MakeBackendFunction.
using MakeDeviceCodecsFunction = bool (*)(uint32_t interface, int device,
                                          absl::StatusOr<std::unique_ptr<DeviceCodecs>>* made);

}  // namespace psgd
