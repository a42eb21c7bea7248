// What a worker's steps push: the gradients within the bounds of train.clip, or the weight changes
// of local steps. They are encoded, and their payloads go to the session.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/status.h"
#include "engine/runtime/replicas.h"
#include "train/gradient_clip.h"
#include "train/local_steps.h"
#include "worker/member.h"
#include "worker/pushed_factors.h"
#include "worker/update_encoder.h"

namespace psgd {

// Not thread-safe, but several threads may call GradientOf.
class StepPushes {
 public:
  // The pointers must stay valid.
  StepPushes(Replicas* network, Member* member) : network_(network), member_(*member) {}

  // Makes the encoder. It encodes on the GPU what it can: nothing with local steps or train.clip.
  // `first`: the options of the first replica. REQUIRES: the member knows the placement.
  absl::Status MakeEncoder(const NetworkOptions& first);
  UpdateEncoder* encoder() { return encoder_.get(); }
  GradientClip* clip() { return clip_ ? &*clip_ : nullptr; }  // null: gradients have no bound
  PushedFactors& factors() { return factors_; }

  // The step that leads to `clock` begins. TakeGradient pushes what it gives.
  void BeginStep(uint64_t clock) {
    step_clock_ = clock;
    step_weight_decay_ = member_.heartbeat().hyper().weight_decay();
  }
  // The gradient of a parameter is final: pushes it. If a bound of the norm needs the whole
  // gradient, all parameters are pushed when that of parameter 0, the last to come, is final.
  absl::Status TakeGradient(int parameter);
  // The network's gradient of a parameter, within the bounds of train.clip, for which it may need
  // `room`.
  std::span<const float> GradientOf(int parameter, std::vector<float>* room) const;
  // Encodes and pushes the weight changes of the slices that the exchange carries.
  absl::Status PushChanges(uint64_t clock, LocalSteps* local);

 private:
  const Config& config() const { return member_.config(); }
  // Encodes the gradient of a parameter, and pushes it.
  absl::Status PushGradient(int parameter);
  // Sends the payloads of encoded_ as updates of `clock`.
  void PushEncoded(uint64_t clock);

  Replicas* const network_;
  Member& member_;
  std::unique_ptr<DeviceCodecs> device_codecs_;  // of a GPU that encodes its gradients
  std::unique_ptr<UpdateEncoder> encoder_;
  std::optional<GradientClip> clip_;
  PushedFactors factors_;
  uint64_t step_clock_ = 0;  // of the step under way
  double step_weight_decay_ = 0;
  std::vector<float> clipped_;         // scratch
  std::vector<EncodedSlice> encoded_;  // scratch
};

}  // namespace psgd
