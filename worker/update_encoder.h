// From a parameter's gradient to the payloads of its slices: weight decay, local accumulation, codec.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "common/bytes.h"
#include "common/status.h"
#include "compression/codec.h"
#include "compression/error_feedback.h"
#include "compression/nonzero.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"
#include "worker/encoded_slice.h"
#include "worker/factor_pushes.h"

namespace psgd {

// Owns the residuals of one worker. Not thread-safe.
class UpdateEncoder {
 public:
  // `factor_rows`: by parameter, of Network::factor_rows; none is 0 for all.
  // REQUIRES: `model` and `placement` outlive this.
  static absl::StatusOr<std::unique_ptr<UpdateEncoder>> Create(
      const Config& config, const ModelSpec& model, const Placement& placement, uint32_t worker,
      std::span<const int64_t> factor_rows = {});

  // Encodes every slice of a parameter. weight_decay * weights is added to the gradient before it is
  // accumulated, where the parameter decays, so that a codec never drops the decay. Of a sparse
  // parameter that travels as it is, and under meprop of all, only what is not zero is sent where that
  // is shorter; the server applies the decay of sparse ones. Of
  // one whose gradient is handed out as factors, those are sent; see factor_pushes.h.
  void Encode(int parameter, std::span<const float> gradient, std::span<const float> weights,
              double weight_decay, uint64_t step, std::vector<EncodedSlice>* out);

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
    const Codec* codec = nullptr;
    std::unique_ptr<ErrorFeedback> encoder;
    bool only_nonzero = false;
    PhiloxKey key;
  };

  UpdateEncoder() = default;

  std::vector<std::unique_ptr<Codec>> codecs_;
  std::vector<std::vector<Slice>> slices_;  // by parameter
  std::vector<bool> decays_;                // by parameter
  std::vector<float> decayed_;              // scratch: gradient with weight decay
  NonzeroEncoder nonzero_;
  std::vector<std::unique_ptr<FactorPushes>> factors_;  // by parameter; null: it has none
};

}  // namespace psgd
