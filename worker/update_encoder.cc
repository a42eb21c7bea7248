#include "worker/update_encoder.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "compression/policy.h"
#include "compression/slice_shape.h"

namespace psgd {

absl::StatusOr<std::unique_ptr<UpdateEncoder>> UpdateEncoder::Create(const Config& config,
                                                                     const ModelSpec& model,
                                                                     const Placement& placement,
                                                                     uint32_t worker,
                                                                     std::span<const int64_t> factor_rows) {
  std::unique_ptr<UpdateEncoder> encoder(new UpdateEncoder());
  encoder->slices_.resize(model.parameters_size());
  std::vector<const Codec*> by_parameter;
  for (const ParameterSpec& parameter : model.parameters()) {
    CodecOptions options;
    options.workers = static_cast<uint32_t>(config.cluster().workers());
    CodecConfig chosen = ChooseCodec(config.compression(), parameter);
    // The engine hands out the factors where there are any; else the gradient travels as it is.
    if (chosen.has_factors()) chosen.mutable_none();
    PSGD_ASSIGN_OR_RETURN(auto codec, MakeCodec(chosen, options));
    by_parameter.push_back(codec.get());
    encoder->codecs_.push_back(std::move(codec));
    // adamw's is decoupled: the server applies it, and in the gradient it would count twice. It also
    // applies that of sparse parameters, whose gradients it would fill.
    encoder->decays_.push_back(parameter.decay() && !parameter.sparse() &&
                               !config.optimizer().has_adamw());
    const size_t index = encoder->factors_.size();
    const int64_t rows = factor_rows.empty() ? 0 : factor_rows[index];
    encoder->factors_.push_back(
        rows == 0 ? nullptr
                  : std::make_unique<FactorPushes>(parameter, static_cast<uint32_t>(index),
                                                   placement, rows));
  }
  for (int id = 0; id < placement.slices_size(); ++id) {
    const SliceSpec& spec = placement.slices(id);
    const ParameterSpec& parameter = model.parameters(static_cast<int>(spec.parameter()));
    const SliceShape shape = ShapeOf(spec, parameter);
    Slice slice;
    slice.spec = spec;
    slice.id = id;
    slice.codec = by_parameter[spec.parameter()];
    ErrorFeedbackOptions feedback;
    feedback.accumulate = config.compression().error_feedback();
    feedback.decay = static_cast<float>(config.compression().residual_decay());
    // With meprop few rows of a dense layer's gradient are not zero, either.
    const bool mostly_zero = parameter.sparse() || config.model().meprop() > 0;
    slice.only_nonzero = mostly_zero && slice.codec->id() == CODEC_NONE;
    slice.encoder = std::make_unique<ErrorFeedback>(*slice.codec, shape, feedback);
    slice.key = MakeKey(config.seed(), RandomPurpose::kCodec,
                        (static_cast<uint64_t>(worker) << 32) | static_cast<uint32_t>(id));
    encoder->slices_[spec.parameter()].push_back(std::move(slice));
  }
  return encoder;
}

void UpdateEncoder::Encode(int parameter, std::span<const float> gradient,
                           std::span<const float> weights, double weight_decay, uint64_t step,
                           std::vector<EncodedSlice>* out) {
  if (factors_[parameter] != nullptr) {
    const double decay = decays_[parameter] ? weight_decay : 0;
    return factors_[parameter]->Encode(gradient, weights, static_cast<float>(decay), out);
  }
  if (weight_decay != 0 && decays_[parameter]) {
    decayed_.resize(gradient.size());
    const auto decay = static_cast<float>(weight_decay);
    for (size_t i = 0; i < gradient.size(); ++i) decayed_[i] = gradient[i] + decay * weights[i];
    gradient = decayed_;
  }
  for (Slice& slice : slices_[parameter]) {
    std::vector<std::byte> payload;
    const auto own = gradient.subspan(slice.spec.offset(), slice.spec.count());
    CodecId codec = slice.codec->id();
    if (slice.only_nonzero && nonzero_.Encode(own, &payload)) {
      codec = CODEC_TOPK;
    } else {
      slice.encoder->Encode(own, slice.key, step, &payload);
    }
    out->push_back({slice.id, codec, Bytes::Adopt(std::move(payload))});
  }
}

std::vector<std::pair<uint32_t, Bytes>> UpdateEncoder::CopyResiduals() const {
  std::vector<std::pair<uint32_t, Bytes>> residuals;
  for (const auto& slices : slices_) {
    for (const Slice& slice : slices) {
      const std::vector<float> state = slice.encoder->CopyState();
      if (!state.empty()) residuals.emplace_back(slice.id, Bytes::CopyOf(AsBytes(state)));
    }
  }
  return residuals;
}

absl::Status UpdateEncoder::RestoreResiduals(const std::map<uint32_t, Bytes>& residuals) {
  for (auto& slices : slices_) {
    for (Slice& slice : slices) {
      auto saved = residuals.find(slice.id);
      if (saved == residuals.end()) continue;
      const size_t bytes = saved->second.size(), array = slice.spec.count() * sizeof(float);
      if (bytes == 0 || bytes % array != 0) {
        return absl::DataLossError(absl::StrCat("the saved state of slice ", slice.id, " has ",
                                                bytes, " bytes, not a multiple of ", array));
      }
      std::vector<float> values(bytes / sizeof(float));
      std::memcpy(values.data(), saved->second.data(), bytes);
      slice.encoder->LoadState(values);
    }
  }
  return absl::OkStatus();
}

double UpdateEncoder::ResidualNorm() const {
  double sum = 0;
  for (const auto& slices : slices_) {
    for (const Slice& slice : slices) sum += slice.encoder->SquaredNorm();
  }
  return std::sqrt(sum);
}

}  // namespace psgd
