// The tensors of a program that lie on GPUs: which of them are coded there, and which of them were
// pushed in the step under way.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/log.h"
#include "common/status.h"
#include "compression/device_codec.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"
#include "worker/encoded_slice.h"
#include "worker/update_encoder.h"

namespace psgd {

// What a program pushes of a tensor: its new values, or a gradient.
enum class Pushed { kWeights, kGradient };

// A tensor's values in the memory of its GPU.
struct DeviceValues {
  const float* values = nullptr;
  // The weights that the program got last. Null: none are needed.
  const float* base = nullptr;
  size_t count = 0;  // elements of each
  // The cudaStream_t on which all work for the values and the base was launched; null: the default
  // stream.
  void* stream = nullptr;
};

// Not thread-safe.
class DevicePushes {
 public:
  // `plugin_dir`: of libpsgd_cudnn.so, see FindInPlugin.
  explicit DevicePushes(std::string plugin_dir) : plugin_dir_(std::move(plugin_dir)) {}

  // The program pushes the tensor from that CUDA device.
  void Use(uint32_t tensor, int device) { wanted_[tensor] = device; }
  // The codecs of the devices, by tensor; null: the host codes the tensor.
  std::vector<DeviceCodecs*> Open(const ModelSpec& model, const Config& config);
  // Logs where each tensor is coded. If a tensor on a device is coded on the host, logs why.
  // REQUIRES: Open was called for the encoder.
  void Tell(const ModelSpec& model, const UpdateEncoder& encoder, const Log& log) const;

  // Notes a push. For weights the update is `base` minus the weights, and no weight decay is added.
  // REQUIRES: the encoder encodes the tensor on its device; the memory does not change until the
  // payload is handed over.
  absl::Status Start(uint32_t tensor, Pushed what, const DeviceValues& values, double weight_decay,
                     uint64_t clock, UpdateEncoder* encoder);
  // Launches what was noted if it has many elements, so that it runs while the host encodes. Few
  // elements wait for the next tensors, because one launch for all takes less time.
  absl::Status LaunchIfMany();
  using Take = std::function<absl::Status(uint32_t tensor, std::vector<EncodedSlice> encoded)>;
  // Hands over the payloads of the tensors that were started and are done, in their order. After an
  // error the others remain started.
  absl::Status FinishDone(UpdateEncoder* encoder, const Take& take);
  // Waits for all tensors that were started, and hands over their payloads. An error of one tensor
  // does not keep back the others; returns the first error.
  absl::Status FinishAll(UpdateEncoder* encoder, const Take& take);

  // Puts the calling thread's device back when it ends, because calls of the codecs may change it.
  class KeptThreadDevice {
   public:
    explicit KeptThreadDevice(const DevicePushes& pushes);
    ~KeptThreadDevice();
    KeptThreadDevice(const KeptThreadDevice&) = delete;
    KeptThreadDevice& operator=(const KeptThreadDevice&) = delete;

   private:
    const DeviceCodecs* const codecs_;  // null: none are open
    const int device_;
  };

 private:
  // A GPU needs longer to encode so many elements than the host needs to launch the work.
  static constexpr size_t kMany = size_t{1} << 20;

  // The codecs of any device; null: none are open.
  const DeviceCodecs* AnyCodecs() const;
  // Checks where the values are. Returns the event after which they are ready.
  absl::StatusOr<void*> EventOf(uint32_t tensor, const DeviceValues& values);
  absl::StatusOr<std::vector<EncodedSlice>> FinishFirst(UpdateEncoder* encoder);

  const std::string plugin_dir_;
  std::map<uint32_t, int> wanted_;  // devices by tensor
  // By device. An error: the tensors of that device are coded on the host.
  std::map<int, absl::StatusOr<std::unique_ptr<DeviceCodecs>>> codecs_;
  std::map<uint32_t, std::string> why_not_;  // by tensor that Open leaves on the host
  std::deque<uint32_t> started_;
  size_t noted_ = 0;  // elements since the last launch
};

}  // namespace psgd
