// From a parameter's gradient to the payloads of its slices: weight decay, local accumulation, codec;
// where the config says auto, a codec that is tried, chosen and changed between steps.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "common/status.h"
#include "compression/codec.h"
#include "compression/error_feedback.h"
#include "compression/nonzero.h"
#include "proto/config.pb.h"
#include "proto/control.pb.h"
#include "proto/model.pb.h"
#include "worker/codec_choice.h"
#include "worker/link_speed.h"

namespace psgd {

struct EncodedSlice {
  uint32_t slice = 0;
  CodecId codec = CODEC_NONE;
  Bytes payload;
};

// Owns the residuals of one worker. Not thread-safe.
class UpdateEncoder {
 public:
  // REQUIRES: `model` and `placement` outlive this.
  static absl::StatusOr<std::unique_ptr<UpdateEncoder>> Create(const Config& config,
                                                               const ModelSpec& model,
                                                               const Placement& placement,
                                                               uint32_t worker);

  // Encodes every slice of a parameter. weight_decay * weights is added to the gradient before it is
  // accumulated, where the parameter decays, so that a codec never drops the decay. Of a sparse
  // parameter that travels as it is, only what is not zero is sent; the server applies its decay.
  void Encode(int parameter, std::span<const float> gradient, std::span<const float> weights,
              double weight_decay, uint64_t step, std::vector<EncodedSlice>* out);

  // Whether any tensor's codec is chosen here, and whether all candidates have been tried.
  bool chooses() const;
  bool tried() const;
  // For each such tensor the codec that is fastest over such a link, for the next steps; what others
  // left behind stays. Returns whether any is another than before. REQUIRES: tried().
  bool Choose(const LinkSpeed& speed);
  // What was measured and chosen. REQUIRES: tried().
  CodecChoices Choices(const LinkSpeed& speed) const;

  // What codecs left behind, and what their encoders remember, of the slices that have any: see
  // ErrorFeedback::CopyState.
  std::vector<std::pair<uint32_t, Bytes>> CopyResiduals() const;
  // Puts back what CopyResiduals gave, in this process or another.
  absl::Status RestoreResiduals(const std::map<uint32_t, Bytes>& residuals);
  double ResidualNorm() const;

 private:
  struct Slice {
    SliceSpec spec;
    uint32_t id = 0;
    SliceShape shape;
    std::unique_ptr<ErrorFeedback> encoder;
    PhiloxKey key;
  };
  struct Tensor {
    std::string name;
    bool decays = false;
    bool only_nonzero = false;
    std::vector<std::unique_ptr<Codec>> codecs;  // one, or those to choose among
    std::vector<std::string> codec_names;
    std::optional<CodecChoice> choice;
    const Codec* codec = nullptr;                // of the next step
    std::vector<Slice> slices;
  };

  UpdateEncoder() = default;
  static absl::StatusOr<Tensor> MakeTensor(const Config& config, const ParameterSpec& parameter);
  // Counts what a step's payloads cost, and goes on with the next candidate when it is its turn.
  void Try(Tensor& tensor, double encode_seconds, std::span<const EncodedSlice> encoded);
  static void Use(Tensor& tensor, size_t candidate);

  std::vector<Tensor> tensors_;  // by parameter
  std::vector<float> decayed_;   // scratch: gradient with weight decay
  std::vector<float> applied_;   // scratch: what payloads are tried on
  NonzeroEncoder nonzero_;
};

}  // namespace psgd
