#include "worker/update_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "compression/policy.h"
#include "compression/slice_shape.h"
#include "compression/twin_options.h"

namespace psgd {
namespace {

CodecOptions CodecOptionsOf(const Config& config) {
  CodecOptions options;
  options.workers = static_cast<uint32_t>(config.cluster().workers());
  return options;
}

ErrorFeedbackOptions FeedbackOf(const Config& config) {
  ErrorFeedbackOptions feedback;
  feedback.accumulate = config.compression().error_feedback();
  feedback.decay = static_cast<float>(config.compression().residual_decay());
  return feedback;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UpdateEncoder>> UpdateEncoder::Create(const Config& config,
                                                                     const ModelSpec& model,
                                                                     const Placement& placement,
                                                                     uint32_t worker,
                                                                     DeviceCodecs* device) {
  std::unique_ptr<UpdateEncoder> encoder(new UpdateEncoder());
  encoder->slices_.resize(model.parameters_size());
  std::vector<const Codec*> by_parameter;
  for (const ParameterSpec& parameter : model.parameters()) {
    PSGD_ASSIGN_OR_RETURN(auto codec, MakeCodec(ChooseCodec(config.compression(), parameter),
                                                CodecOptionsOf(config)));
    by_parameter.push_back(codec.get());
    encoder->codecs_.push_back(std::move(codec));
    // adamw's is decoupled: the server applies it, and in the gradient it would count twice. It also
    // applies that of sparse parameters, whose gradients it would fill.
    encoder->decays_.push_back(parameter.decay() && !parameter.sparse() &&
                               !config.optimizer().has_adamw());
  }
  for (int id = 0; id < placement.slices_size(); ++id) {
    const SliceSpec& spec = placement.slices(id);
    const ParameterSpec& parameter = model.parameters(static_cast<int>(spec.parameter()));
    const SliceShape shape = ShapeOf(spec, parameter);
    Slice slice;
    slice.spec = spec;
    slice.id = id;
    slice.codec = by_parameter[spec.parameter()];
    slice.only_nonzero = parameter.sparse() && slice.codec->id() == CODEC_NONE;
    slice.encoder = std::make_unique<ErrorFeedback>(*slice.codec, shape, FeedbackOf(config));
    slice.key = MakeKey(config.seed(), RandomPurpose::kCodec,
                        (static_cast<uint64_t>(worker) << 32) | static_cast<uint32_t>(id));
    encoder->slices_[spec.parameter()].push_back(std::move(slice));
  }
  encoder->on_device_.resize(model.parameters_size());
  for (int i = 0; i < model.parameters_size() && device != nullptr; ++i) {
    PSGD_RETURN_IF_ERROR(encoder->MoveToDevice(i, config, model, device));
  }
  return encoder;
}

absl::Status UpdateEncoder::MoveToDevice(int parameter, const Config& config,
                                         const ModelSpec& model, DeviceCodecs* device) {
  const ParameterSpec& spec = model.parameters(parameter);
  const CodecConfig chosen = ChooseCodec(config.compression(), spec);
  std::vector<std::unique_ptr<DeviceEncoder>> made;
  for (const Slice& slice : slices_[parameter]) {
    const auto twin = MakeTwinOptions(chosen, *slice.codec, ShapeOf(slice.spec, spec),
                                      FeedbackOf(config), CodecOptionsOf(config));
    if (!twin) return absl::OkStatus();
    auto encoder = device->NewEncoder(*twin);
    // Memory that the network left too little of: the host has more.
    if (absl::IsResourceExhausted(encoder.status())) return absl::OkStatus();
    PSGD_RETURN_IF_ERROR(encoder.status());
    made.push_back(*std::move(encoder));
  }
  for (size_t i = 0; i < made.size(); ++i) {
    slices_[parameter][i].encoder.reset();
    slices_[parameter][i].device_encoder = std::move(made[i]);
  }
  on_device_[parameter] = !made.empty();
  return absl::OkStatus();
}

void UpdateEncoder::Encode(int parameter, std::span<const float> gradient,
                           std::span<const float> weights, double weight_decay, uint64_t step,
                           std::vector<EncodedSlice>* out) {
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

absl::Status UpdateEncoder::Start(int parameter, const DeviceGradient& gradient,
                                  double weight_decay, uint64_t step) {
  const bool decays = weight_decay != 0 && decays_[parameter];
  for (const Slice& slice : slices_[parameter]) {
    DeviceEncodeInput input;
    input.gradient = gradient.gradient + slice.spec.offset();
    input.weights = decays ? gradient.value + slice.spec.offset() : nullptr;
    input.weight_decay = static_cast<float>(weight_decay);
    input.key = slice.key;
    input.step = step;
    PSGD_RETURN_IF_ERROR(slice.device_encoder->Start(input, gradient.ready));
  }
  return absl::OkStatus();
}

absl::Status UpdateEncoder::Finish(int parameter, std::vector<EncodedSlice>* out) {
  for (const Slice& slice : slices_[parameter]) {
    PSGD_ASSIGN_OR_RETURN(const ByteSpan payload, slice.device_encoder->Finish());
    out->push_back({slice.id, slice.codec->id(), Bytes::CopyOf(payload)});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> UpdateEncoder::Slice::CopyState() const {
  if (device_encoder != nullptr) return device_encoder->CopyState();
  return encoder->CopyState();
}

absl::Status UpdateEncoder::Slice::LoadState(std::span<const float> arrays) {
  if (device_encoder != nullptr) return device_encoder->LoadState(arrays);
  encoder->LoadState(arrays);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::pair<uint32_t, Bytes>>> UpdateEncoder::CopyResiduals() const {
  std::vector<std::pair<uint32_t, Bytes>> residuals;
  for (const auto& slices : slices_) {
    for (const Slice& slice : slices) {
      PSGD_ASSIGN_OR_RETURN(const std::vector<float> state, slice.CopyState());
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
      PSGD_RETURN_IF_ERROR(slice.LoadState(values));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<double> UpdateEncoder::ResidualNorm() const {
  double sum = 0;
  for (const auto& slices : slices_) {
    for (const Slice& slice : slices) {
      if (slice.encoder != nullptr) {
        sum += slice.encoder->SquaredNorm();
        continue;
      }
      PSGD_ASSIGN_OR_RETURN(std::vector<float> state, slice.CopyState());
      state.resize(std::min<size_t>(state.size(), slice.spec.count()));
      for (const float value : state) sum += static_cast<double>(value) * value;
    }
  }
  return std::sqrt(sum);
}

}  // namespace psgd
