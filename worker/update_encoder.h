// Turns a parameter's gradient into the payloads of its slices: weight decay, local accumulation,
// codec, lossless stage. If the config says auto, codecs are tried and chosen, and the choice may
// change between steps. A gradient on a device is encoded there if its codecs have twins there.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "common/device_gradient.h"
#include "common/status.h"
#include "compression/codec.h"
#include "compression/device_codec.h"
#include "compression/error_feedback.h"
#include "compression/lossless.h"
#include "compression/sparse/nonzero.h"
#include "proto/config.pb.h"
#include "proto/control.pb.h"
#include "proto/model.pb.h"
#include "proto/parameter_groups.h"
#include "worker/codec_choice.h"
#include "worker/encoded_slice.h"
#include "worker/factor_pushes.h"
#include "worker/link_speed.h"

namespace psgd {

// Two arrays of a parameter on a device; their difference is encoded.
struct DeviceDifference {
  const float* of = nullptr;
  const float* minus = nullptr;
  void* ready = nullptr;  // see DeviceGradient
};

// The residual of a slice, as a push of its own.
struct FlushedSlice {
  EncodedSlice encoded;
  double squared_norm = 0;
};

// Owns the residuals of one worker. Not thread-safe.
class UpdateEncoder {
 public:
  // `factor_rows`: Network::factor_rows by parameter; empty: 0 for all. `devices`: by parameter,
  // the codecs of the device on which its gradients lie; null, or empty `devices`: they lie on the
  // host. REQUIRES: `model`, `placement` and the codecs of `devices` outlive this.
  static absl::StatusOr<std::unique_ptr<UpdateEncoder>> Create(
      const Config& config, const ModelSpec& model, const Placement& placement, uint32_t worker,
      std::span<const int64_t> factor_rows = {}, std::span<DeviceCodecs* const> devices = {});

  // The reason, from the codec alone, why the host encodes a parameter of a program. Empty: a
  // device may encode it.
  static std::string WhyOnHost(const Config& config, const ParameterSpec& parameter);

  // By parameter: whether Start and Finish encode its gradient on the device. Otherwise Encode
  // encodes it.
  const std::vector<bool>& on_device() const { return on_device_; }
  // By parameter: why it is not on_device() although its gradient lies on a device. Otherwise "".
  const std::vector<std::string>& why_on_host() const { return why_on_host_; }
  // Whether weight decay, if there is any, is added to the gradient of the parameter here.
  bool adds_decay(int parameter) const { return tensors_[parameter].adds_decay; }

  // Whether the codec of the parameter's last step leaves something out for later steps.
  bool leaves_out(int parameter) const { return !tensors_[parameter].codec->lossless(); }

  // From now on Encode encodes only the slices for which `only` is true. The gradient and the
  // residual of the other slices wait.
  void OnlySlices(std::function<bool(uint32_t slice)> only) { only_ = std::move(only); }

  // Encodes every slice of a parameter. If the parameter decays, weight_decay * weights is added to
  // the gradient before it is accumulated, so that a codec never drops the decay. A group of
  // parameters may have a decay of its own. The server applies the decay of sparse parameters.
  //
  // Without a codec, sparse parameters, and with meprop all parameters, send only the values that
  // are not zero, if that is shorter. If the network hands out a gradient as factors, the factors
  // are sent; see factor_pushes.h.
  void Encode(int parameter, std::span<const float> gradient, std::span<const float> weights,
              double weight_decay, uint64_t step, std::vector<EncodedSlice>* out);

  // The same for a gradient of which only some rows are not zero. A row belongs to one index of the
  // parameter's first dimension. Without a codec only these rows are read.
  void Encode(int parameter, const SparseRows& gradient, std::span<const float> weights,
              double weight_decay, uint64_t step, std::vector<EncodedSlice>* out);

  // Whether any tensor has a choice of codecs, and whether all candidates have been tried.
  bool chooses() const;
  bool tried() const;
  // Chooses for each such tensor the codec that is fastest over such a link, for the next steps.
  // The residuals of earlier codecs stay. Returns whether any choice is new. REQUIRES: tried().
  bool Choose(const LinkSpeed& speed);
  // What was measured and chosen. REQUIRES: tried().
  CodecChoices Choices(const LinkSpeed& speed) const;
  // As Encode, on the device. Start notes the work, which waits for the gradient's event. Gradients
  // with the same event are encoded together (DeviceEncoder::Start). Finish waits for the payloads.
  // REQUIRES: on_device()[parameter]; the memory of `gradient` does not change until Finish.
  absl::Status Start(int parameter, const DeviceGradient& gradient, double weight_decay,
                     uint64_t step);
  absl::Status Finish(int parameter, std::vector<EncodedSlice>* out);
  // As Start, for a difference. REQUIRES: no weight decay applies to the parameter.
  absl::Status Start(int parameter, const DeviceDifference& difference, uint64_t step);
  // Whether Finish would not wait. REQUIRES: the parameter was started and not finished.
  absl::StatusOr<bool> IsDone(int parameter) const;

  // The residuals of the slices that have any, and what their encoders remember: see
  // ErrorFeedback::CopyState.
  absl::StatusOr<std::vector<std::pair<uint32_t, Bytes>>> CopyResiduals() const;
  // Puts back the result of CopyResiduals, from this process or another one, perhaps with other
  // codecs. Lossless codecs send a residual with their first payload. Returns the norm of what must
  // be dropped because no codec of this config takes it.
  absl::StatusOr<double> RestoreResiduals(const std::map<uint32_t, Bytes>& residuals);
  absl::StatusOr<double> ResidualNorm() const;
  // Takes all residuals, exactly, as the pushes of a step with gradient 0 and lossless codecs.
  // Slices without a residual are left out. After that there is no residual. The other memory of
  // encoders is given up: dgc's velocity is what later steps would have added, and is not owed.
  absl::StatusOr<std::vector<FlushedSlice>> Flush();

 private:
  struct Slice {
    SliceSpec spec;
    uint32_t id = 0;
    SliceShape shape;
    std::unique_ptr<ErrorFeedback> encoder;  // null where the device's is
    std::unique_ptr<DeviceEncoder> device_encoder;
    std::vector<TwinOptions> twins;  // of the device's encoder, by codec of the tensor
    PhiloxKey key;

    absl::StatusOr<std::vector<float>> CopyState() const;
    absl::Status LoadState(std::span<const float> arrays);
    bool takes_residual() const;
  };
  struct Tensor {
    std::string name;
    bool decays = false;      // ParameterSpec.decay
    bool adds_decay = false;  // here; else the server applies it
    ParameterRates rates;
    bool only_nonzero = false;
    std::vector<CodecConfig> configs;            // one, or those to choose among
    std::vector<std::unique_ptr<Codec>> codecs;  // likewise
    std::optional<CodecChoice> choice;
    std::unique_ptr<FactorPushes> factors;  // if the engine hands out the gradient as factors
    const Codec* codec = nullptr;           // of the last step
    std::vector<Slice> slices;

    bool trying() const { return choice && !choice->tried(); }
    double DecayOf(double usual) const { return adds_decay ? rates.DecayOf(decays, usual) : 0; }
    // A step begins. Returns whether it has another codec than the last step.
    bool TakeUpChoice();
  };

  UpdateEncoder() = default;
  static absl::StatusOr<Tensor> MakeTensor(const Config& config, const ParameterSpec& parameter);
  // Encodes the rows without a codec. Returns false, and does nothing, if they need the codec.
  bool EncodeRows(const Tensor& tensor, const SparseRows& gradient, std::vector<EncodedSlice>* out);
  // Encodes one slice of the tensor's gradient with its codec.
  void EncodeSlice(const Tensor& tensor, Slice& slice, std::span<const float> gradient,
                   uint64_t step, std::vector<EncodedSlice>* out);
  // Counts the cost of a step's payloads, and takes the next candidate when it is its turn.
  void Try(Tensor& tensor, double encode_seconds, std::span<const EncodedSlice> encoded);
  // Applies the lossless stage, if there is one, after the codec. Returns the seconds that it took.
  double Pack(std::span<EncodedSlice> encoded);

  // Starts the slices of a parameter: the first array plus `times` times the second, if any.
  absl::Status StartSlices(int parameter, const float* array, const float* second, float times,
                           void* ready, uint64_t step);
  // Makes the device's encoders of a parameter, if its codecs have twins there and there is room.
  // Otherwise returns why not.
  static absl::StatusOr<std::string> MoveToDevice(const ParameterSpec& parameter, Tensor* tensor,
                                                  const Config& config, DeviceCodecs* device);

  float residual_decay_ = 1;
  std::function<bool(uint32_t)> only_;  // null: all
  std::vector<Tensor> tensors_;         // by parameter
  std::vector<bool> on_device_;         // by parameter
  std::vector<std::string> why_on_host_;
  std::vector<float> decayed_;         // scratch: gradient with weight decay
  std::vector<float> dense_;           // scratch: gradient that came as rows
  std::vector<float> applied_;         // scratch: what payloads are tried on
  std::unique_ptr<Packer> packer_;     // null: nothing is packed
  std::vector<PackingHabit> packing_;  // by slice id
  NonzeroEncoder nonzero_;
};

}  // namespace psgd
