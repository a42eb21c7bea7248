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

// Whether the program has the optimizer, so that it pushes weights.
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

  // The program pushes the tensor from the memory of that CUDA device, if the tensor can be coded
  // there.
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
  // The same for values on the device that codes the tensor. Does not wait for the device. The
  // memory must not change until Finish. If values are not finite, the error comes from this push,
  // a later push, Sent or Finish.
  absl::Status Push(uint32_t tensor, Pushed what, const DeviceValues& values);
  // Pushes some rows of a tensor whose other rows did not change. `values`: weights or a gradient,
  // whichever the run takes. `rows`: strictly ascending.
  absl::Status PushRows(uint32_t tensor, std::span<const int64_t> rows,
                        std::span<const float> values);
  // Waits until devices have encoded their pushes of the step.
  absl::Status Finish();
  // Whether something was pushed in this step.
  bool any() const;
  // Each tensor may be pushed again.
  void EndStep() { pushed_.assign(pushed_.size(), false); }
  // Says which elements the last push of the tensor sent, if its codec sends single elements and
  // leaves the others for later: 1 if sent, 0 if not. With other codecs all are 0.
  absl::Status Sent(uint32_t tensor, std::span<uint8_t> sent);
  // Whether the tensor's codec sends single elements and leaves the others for later.
  absl::StatusOr<bool> SendsElements(uint32_t tensor) const;

 private:
  uint64_t Clock() const { return std::get<task::Train>(member_.core().task()).clock; }
  double Decay() const { return member_.heartbeat().hyper().weight_decay(); }
  const Config& config() const { return member_.config(); }
  bool TakesWeights(uint32_t tensor) const {
    return tensors_.is_statistic(tensor) || PushesWeights(config());
  }
  // OK: the program may push the tensor, has not pushed it in this step, and the run takes weights
  // or gradients as `what` says.
  absl::Status CheckPush(uint32_t tensor, Pushed what) const;
  absl::Status CheckHostPush(uint32_t tensor, Pushed what) const;
  absl::Status CheckDevicePush(uint32_t tensor, Pushed what, const DeviceValues& values) const;
  // The update that turns the tensor's weights into `values`. Shards subtract it from trained
  // weights, and add it to statistics. `element_of`: which element the i-th value is.
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
  // Checks that an update from a device is finite. If it is not, the device has left it unencoded.
  absl::Status CheckFinite(uint32_t tensor, std::span<const EncodedSlice> encoded) const;
  // The error for a value that is not finite.
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
  // By tensor: its last push in encoded form, if the codec left something out.
  std::map<uint32_t, std::vector<EncodedSlice>> sent_;
  std::vector<EncodedSlice> encoded_;  // scratch
  std::vector<float> update_;          // scratch
};

}  // namespace psgd
