// The updates that a program pushes: checks them, has the host or a device code them, and hands the
// payloads to the session.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/device_pushes.h"
#include "client/tensors.h"
#include "common/status.h"
#include "compression/codec.h"
#include "proto/config.pb.h"
#include "worker/encoded_slice.h"
#include "worker/member.h"
#include "worker/update_encoder.h"

namespace psgd {

// Where the updates of a tensor are coded. With a base, the device needs the weights that the
// program got last, too.
enum class CodedOn { kHost, kDevice, kDeviceWithBase };

// Whether a program has the optimizer, and pushes weights.
bool PushesWeights(const Config& config);

struct ClientTimings {
  uint64_t steps = 0;
  double wait = 0, install = 0, encode = 0, copy = 0, control = 0;  // seconds
  uint64_t bytes_pushed = 0, bytes_pulled = 0;
};

// Not thread-safe.
class Pushes {
 public:
  // `plugin_dir`: where the codecs of GPUs are, see FindInPlugin. `may_push`: OK if the program may
  // push now; else why not. The pointers must stay valid.
  Pushes(std::string plugin_dir, std::function<absl::Status()> may_push,
         const ClientTensors* tensors, Member* member, ClientTimings* timings)
      : may_push_(std::move(may_push)),
        tensors_(*tensors),
        member_(*member),
        timings_(*timings),
        devices_(std::move(plugin_dir)) {}

  // The program pushes the tensor from the memory of that CUDA device, where it can be coded there.
  absl::Status UseDevice(uint32_t tensor, int device);
  // Makes the encoder. REQUIRES: all tensors are there, and the member knows their placement.
  absl::Status MakeEncoder();
  // The program has committed: the member is connected, too.
  void Commit() { committed_ = true; }
  bool committed() const { return committed_; }
  UpdateEncoder* encoder() { return encoder_.get(); }
  const CodecTable& codecs() const { return codecs_; }
  const DevicePushes& devices() const { return devices_; }

  // REQUIRES of the program: it has committed.
  absl::StatusOr<CodedOn> WhereCoded(uint32_t tensor) const;
  absl::Status Push(uint32_t tensor, Pushed what, std::span<const float> values);
  // The same of values on the device that codes the tensor. Does not wait for the device.
  // The memory must not change until Finish. This push, a later one, Sent or Finish tells of values
  // that are not finite.
  absl::Status Push(uint32_t tensor, Pushed what, const DeviceValues& values);
  // Some rows of a tensor whose other rows did not change: weights or a gradient, as the run takes.
  // `rows`: strictly ascending.
  absl::Status PushRows(uint32_t tensor, std::span<const int64_t> rows,
                        std::span<const float> values);
  // Waits for what devices encode of the step.
  absl::Status Finish();
  // Whether something was pushed in this step.
  bool any() const;
  // Each tensor may be pushed again.
  void EndStep() { pushed_.assign(pushed_.size(), false); }
  // Which elements the last push of the tensor sent, where its codec sends single elements and
  // leaves the others for later: 1, and 0 of the others. Elsewhere 0 of all.
  absl::Status Sent(uint32_t tensor, std::span<uint8_t> sent);
  // Whether the tensor's codec does so.
  absl::StatusOr<bool> SendsElements(uint32_t tensor) const;

 private:
  uint64_t Clock() const { return std::get<task::Train>(member_.core().task()).clock; }
  double Decay() const { return member_.heartbeat().hyper().weight_decay(); }
  const Config& config() const { return member_.config(); }
  bool TakesWeights(uint32_t tensor) const {
    return tensors_.is_statistic(tensor) || PushesWeights(config());
  }
  // The tensor may be pushed, was not pushed in this step, and the run takes this of it.
  absl::Status CheckPush(uint32_t tensor, Pushed what) const;
  absl::Status CheckHostPush(uint32_t tensor, Pushed what) const;
  absl::Status CheckDevicePush(uint32_t tensor, Pushed what, const DeviceValues& values) const;
  // The update that makes `values` of the tensor's weights: shards subtract what an optimizer gets,
  // and add what statistics get. `element_of`: which element the i-th value is.
  template <typename ElementOf>
  std::span<const float> UpdateTo(uint32_t tensor, std::span<const float> values,
                                  const ElementOf& element_of);
  // `Update`: what UpdateEncoder::Encode takes.
  template <typename Update>
  absl::Status Encode(uint32_t tensor, const Update& update);
  // Sends the payloads of a push.
  void Send(uint32_t tensor, std::vector<EncodedSlice>* encoded);
  // Sends the payloads that a device has made.
  DevicePushes::Take TakeFromDevices();
  // What a device encoded is finite: a device sends the update itself otherwise.
  absl::Status CheckFinite(uint32_t tensor, std::span<const EncodedSlice> encoded) const;
  // The error if the program pushes such a value.
  absl::Status NotFinite(uint32_t tensor, Pushed what, size_t element, float value) const;

  const std::function<absl::Status()> may_push_;
  const ClientTensors& tensors_;
  Member& member_;
  ClientTimings& timings_;
  const CodecTable codecs_;
  DevicePushes devices_;  // has the codecs of the encoder's devices
  std::unique_ptr<UpdateEncoder> encoder_;
  bool committed_ = false;
  std::vector<bool> pushed_;  // by tensor: in this step
  // By tensor: what a codec made of its last push, if it left something out.
  std::map<uint32_t, std::vector<EncodedSlice>> sent_;
  std::vector<EncodedSlice> encoded_;  // scratch
  std::vector<float> update_;          // scratch
};

}  // namespace psgd
