#include "worker/update_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "compression/policy.h"
#include "compression/saved_state.h"
#include "compression/slice_shape.h"
#include "compression/twin_options.h"
#include "proto/decay.h"
#include "worker/decode_cost.h"

namespace psgd {
namespace {

// Tells keys of tensors from those of slices, of which there are fewer.
constexpr uint64_t kOfTensors = uint64_t{1} << 31;

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

// For the first of the codecs; takes the memory of all, so that none is missing, nor waited for,
// when one is chosen.
absl::StatusOr<std::unique_ptr<DeviceEncoder>> NewDeviceEncoder(std::span<const TwinOptions> twins,
                                                                DeviceCodecs* device) {
  PSGD_ASSIGN_OR_RETURN(auto encoder, device->NewEncoder(twins.back()));
  for (size_t i = twins.size() - 1; i > 0; --i) {
    PSGD_RETURN_IF_ERROR(encoder->Use(twins[i - 1]));
  }
  return encoder;
}

}  // namespace

absl::StatusOr<UpdateEncoder::Tensor> UpdateEncoder::MakeTensor(const Config& config,
                                                                const ParameterSpec& parameter) {
  Tensor tensor;
  tensor.name = parameter.name();
  // Decoupled decay is the server's, and in the gradient it would count twice. The server also
  // applies that of sparse parameters, whose gradients it would fill.
  tensor.rates = RatesOf(config.optimizer(), parameter);
  tensor.decays = parameter.decay();
  tensor.adds_decay = (tensor.decays || tensor.rates.weight_decay) && !parameter.sparse() &&
                      !DecouplesDecay(config.optimizer());
  CodecConfig chosen = ChooseCodec(config.compression(), parameter);
  // The engine hands out the factors where there are any; else the gradient travels as it is.
  if (chosen.has_factors()) chosen.mutable_none();
  tensor.configs =
      chosen.has_auto_() ? Candidates(chosen.auto_()) : std::vector<CodecConfig>{chosen};
  for (const CodecConfig& candidate : tensor.configs) {
    PSGD_ASSIGN_OR_RETURN(auto codec, MakeCodec(candidate, CodecOptionsOf(config)));
    tensor.codecs.push_back(std::move(codec));
  }
  if (chosen.has_auto_()) tensor.choice.emplace(tensor.codecs.size(), chosen.auto_().steps());
  tensor.codec = tensor.codecs[0].get();
  // With meprop few rows of a dense layer's gradient are not zero, either.
  const bool mostly_zero = parameter.sparse() || config.model().meprop() > 0;
  tensor.only_nonzero = mostly_zero && tensor.codec->id() == CODEC_NONE;
  return tensor;
}

absl::StatusOr<std::unique_ptr<UpdateEncoder>> UpdateEncoder::Create(
    const Config& config, const ModelSpec& model, const Placement& placement, uint32_t worker,
    std::span<const int64_t> factor_rows, std::span<DeviceCodecs* const> devices) {
  std::unique_ptr<UpdateEncoder> encoder(new UpdateEncoder());
  encoder->residual_decay_ = FeedbackOf(config).decay;
  for (const ParameterSpec& parameter : model.parameters()) {
    PSGD_ASSIGN_OR_RETURN(Tensor tensor, MakeTensor(config, parameter));
    const size_t index = encoder->tensors_.size();
    const int64_t rows = factor_rows.empty() ? 0 : factor_rows[index];
    if (rows > 0) {
      tensor.factors =
          std::make_unique<FactorPushes>(parameter, static_cast<uint32_t>(index), placement, rows,
                                         ChooseCodec(config.compression(), parameter).factors(),
                                         MakeKey(config.seed(), RandomPurpose::kCodec,
                                                 (uint64_t{worker} << 32) | kOfTensors | index));
    }
    encoder->tensors_.push_back(std::move(tensor));
  }
  encoder->packer_ = Packer::Make(config.compression().lossless());
  encoder->packing_.resize(placement.slices_size());
  for (int id = 0; id < placement.slices_size(); ++id) {
    const SliceSpec& spec = placement.slices(id);
    Tensor& tensor = encoder->tensors_[spec.parameter()];
    Slice slice;
    slice.spec = spec;
    slice.id = id;
    slice.shape = ShapeOf(spec, model.parameters(static_cast<int>(spec.parameter())));
    slice.encoder = std::make_unique<ErrorFeedback>(*tensor.codec, slice.shape, FeedbackOf(config));
    slice.key = MakeKey(config.seed(), RandomPurpose::kCodec,
                        (static_cast<uint64_t>(worker) << 32) | static_cast<uint32_t>(id));
    tensor.slices.push_back(std::move(slice));
  }
  encoder->on_device_.resize(model.parameters_size());
  encoder->why_on_host_.resize(model.parameters_size());
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i] == nullptr) continue;
    Tensor& tensor = encoder->tensors_[i];
    PSGD_ASSIGN_OR_RETURN(
        encoder->why_on_host_[i],
        MoveToDevice(model.parameters(static_cast<int>(i)), &tensor, config, devices[i]));
    encoder->on_device_[i] = encoder->why_on_host_[i].empty() && !tensor.slices.empty();
  }
  return encoder;
}

std::string UpdateEncoder::WhyOnHost(const Config& config, const ParameterSpec& parameter) {
  const CodecConfig chosen = ChooseCodec(config.compression(), parameter);
  // What travels whole is copied as it is.
  if (chosen.has_none()) return "no codec shortens it (none)";
  return chosen.has_factors() ? "psgd's own engine alone makes factors" : "";
}

absl::StatusOr<std::string> UpdateEncoder::MoveToDevice(const ParameterSpec& parameter,
                                                        Tensor* moved, const Config& config,
                                                        DeviceCodecs* device) {
  Tensor& tensor = *moved;
  if (tensor.factors) return "it travels as factors";
  if (std::string why = WhyOnHost(config, parameter); !why.empty()) return why;
  std::vector<std::unique_ptr<DeviceEncoder>> made;
  for (Slice& slice : tensor.slices) {
    for (size_t i = 0; i < tensor.codecs.size(); ++i) {
      const auto twin = MakeTwinOptions(*tensor.codecs[i], slice.shape, FeedbackOf(config));
      if (!twin)
        return absl::StrCat("its codec, ", tensor.codecs[i]->name(), ", runs on hosts only");
      slice.twins.push_back(*twin);
    }
    auto encoder = NewDeviceEncoder(slice.twins, device);
    // Memory that the network left too little of: the host has more.
    if (absl::IsResourceExhausted(encoder.status())) return "the device's memory is full";
    PSGD_RETURN_IF_ERROR(encoder.status());
    made.push_back(*std::move(encoder));
  }
  for (size_t i = 0; i < made.size(); ++i) {
    tensor.slices[i].encoder.reset();
    tensor.slices[i].device_encoder = std::move(made[i]);
  }
  return "";
}

void UpdateEncoder::Encode(int parameter, std::span<const float> gradient,
                           std::span<const float> weights, double weight_decay, uint64_t step,
                           std::vector<EncodedSlice>* out) {
  Tensor& tensor = tensors_[parameter];
  weight_decay = tensor.DecayOf(weight_decay);
  const size_t before = out->size();
  if (tensor.TakeUpChoice()) {
    for (Slice& slice : tensor.slices) {
      slice.encoder->Use(*tensor.codec);
      packing_[slice.id] = {};
    }
  }
  if (tensor.factors != nullptr) {
    const auto decay = static_cast<float>(weight_decay);
    const bool owes = std::ranges::any_of(
        tensor.slices, [](const Slice& slice) { return !slice.encoder->residual().empty(); });
    if (owes) {
      decayed_ = tensor.factors->Product(gradient, weights, decay);
      for (Slice& slice : tensor.slices) EncodeSlice(tensor, slice, decayed_, step, out);
    } else {
      tensor.factors->Encode(gradient, weights, decay, step, out);
    }
    Pack(std::span(*out).subspan(before));
    return;
  }
  if (weight_decay != 0) {
    decayed_.resize(gradient.size());
    const auto decay = static_cast<float>(weight_decay);
    for (size_t i = 0; i < gradient.size(); ++i) decayed_[i] = gradient[i] + decay * weights[i];
    gradient = decayed_;
  }
  const Time start = SteadyNow();
  for (Slice& slice : tensor.slices) {
    if (!only_ || only_(slice.id)) EncodeSlice(tensor, slice, gradient, step, out);
  }
  const auto encoded = std::span(*out).subspan(before);
  Pack(encoded);
  if (tensor.trying()) Try(tensor, Seconds(SteadyNow() - start), encoded);
}

void UpdateEncoder::Encode(int parameter, const SparseRows& gradient,
                           std::span<const float> weights, double weight_decay, uint64_t step,
                           std::vector<EncodedSlice>* out) {
  const size_t before = out->size();
  if (EncodeRows(tensors_[parameter], gradient, out)) {
    Pack(std::span(*out).subspan(before));
    return;
  }
  out->resize(before);
  dense_.assign(weights.size(), 0);
  for (size_t i = 0; i < gradient.rows.size(); ++i) {
    std::ranges::copy(gradient.values.subspan(i * gradient.columns, gradient.columns),
                      dense_.begin() + gradient.rows[i] * static_cast<int64_t>(gradient.columns));
  }
  Encode(parameter, dense_, weights, weight_decay, step, out);
}

bool UpdateEncoder::EncodeRows(const Tensor& tensor, const SparseRows& gradient,
                               std::vector<EncodedSlice>* out) {
  if (!tensor.only_nonzero || tensor.adds_decay || tensor.choice || tensor.factors) return false;
  for (const Slice& slice : tensor.slices) {
    // One that has a residual of an earlier run's codec sends it with its first payload.
    if (slice.encoder == nullptr || !slice.encoder->residual().empty()) return false;
    std::vector<std::byte> payload;
    if (!nonzero_.Encode(gradient, slice.spec.offset(), slice.spec.count(), &payload)) return false;
    out->push_back({slice.id, CODEC_TOPK, Bytes::Adopt(std::move(payload))});
  }
  return true;
}

void UpdateEncoder::EncodeSlice(const Tensor& tensor, Slice& slice, std::span<const float> gradient,
                                uint64_t step, std::vector<EncodedSlice>* out) {
  std::vector<std::byte> payload;
  const auto own = gradient.subspan(slice.spec.offset(), slice.spec.count());
  CodecId codec = tensor.codec->id();
  const bool exact = tensor.codec->lossless() && slice.encoder->residual().empty();
  const auto largest = KernelsFor(CodecBackend::kSimd).dense.largest;
  if (!exact && !std::isfinite(largest(AsBytes(own).data(), own.size()))) {
    // Some codecs would make numbers of it, and the residual would not forget it. As it is the
    // shard refuses it, and counts.
    codec = CODEC_NONE;
    payload.assign(AsBytes(own).begin(), AsBytes(own).end());
  } else if (exact && tensor.only_nonzero && nonzero_.Encode(own, &payload)) {
    codec = CODEC_TOPK;
  } else {
    slice.encoder->Encode(own, slice.key, step, &payload);
  }
  out->push_back({slice.id, codec, Bytes::Adopt(std::move(payload))});
}

double UpdateEncoder::Pack(std::span<EncodedSlice> encoded) {
  if (packer_ == nullptr) return 0;
  const Time start = SteadyNow();
  for (EncodedSlice& slice : encoded) {
    slice.packed = packer_->Pack(slice.payload.span(), &packing_[slice.slice]);
  }
  return Seconds(SteadyNow() - start);
}

void UpdateEncoder::Try(Tensor& tensor, double encode_seconds,
                        std::span<const EncodedSlice> encoded) {
  CodecCost cost;
  cost.encode_seconds = encode_seconds;
  for (size_t i = 0; i < encoded.size(); ++i) {
    cost.bytes += static_cast<double>(encoded[i].travels().size());
    applied_.resize(tensor.slices[i].shape.elements);
    const auto seconds = SecondsToApply(*tensor.codec, tensor.slices[i].shape, encoded[i].travels(),
                                        encoded[i].packed.planes, applied_);
    // One that cannot be read the shard will refuse, and say why.
    if (seconds.ok()) cost.decode_seconds += *seconds;
  }
  tensor.choice->Tried(cost);
}

bool UpdateEncoder::Tensor::TakeUpChoice() {
  const Codec* const last = codec;
  if (choice) codec = codecs[choice->current()].get();
  return codec != last;
}

bool UpdateEncoder::chooses() const {
  return std::ranges::any_of(tensors_, [](const Tensor& t) { return t.choice.has_value(); });
}

bool UpdateEncoder::tried() const {
  return std::ranges::none_of(tensors_, [](const Tensor& t) { return t.trying(); });
}

bool UpdateEncoder::Choose(const LinkSpeed& speed) {
  bool any = false;
  for (Tensor& tensor : tensors_) {
    if (!tensor.choice) continue;
    any |= tensor.choice->Choose(speed.bytes_per_second);
  }
  return any;
}

CodecChoices UpdateEncoder::Choices(const LinkSpeed& speed) const {
  CodecChoices choices;
  choices.set_bytes_per_second(speed.bytes_per_second);
  choices.set_seconds_round_trip(speed.round_trip_seconds);
  for (const Tensor& tensor : tensors_) {
    if (!tensor.choice) continue;
    CodecChoices::Tensor* out = choices.add_tensors();
    out->set_parameter(tensor.name);
    out->set_chosen(static_cast<uint32_t>(tensor.choice->current()));
    for (size_t i = 0; i < tensor.codecs.size(); ++i) {
      const CodecCost cost = tensor.choice->Cost(i);
      CodecChoices::Candidate* candidate = out->add_candidates();
      candidate->set_codec(CodecText(tensor.configs[i]));
      candidate->set_bytes(static_cast<uint64_t>(cost.bytes));
      candidate->set_seconds_encode(cost.encode_seconds);
      candidate->set_seconds_send(cost.bytes / speed.bytes_per_second);
      candidate->set_seconds_decode(cost.decode_seconds);
    }
  }
  return choices;
}

absl::Status UpdateEncoder::StartSlices(int parameter, const float* array, const float* second,
                                        float times, void* ready, uint64_t step) {
  Tensor& tensor = tensors_[parameter];
  if (tensor.TakeUpChoice()) {
    for (Slice& slice : tensor.slices) {
      PSGD_RETURN_IF_ERROR(slice.device_encoder->Use(slice.twins[tensor.choice->current()]));
      packing_[slice.id] = {};
    }
  }
  for (const Slice& slice : tensor.slices) {
    DeviceEncodeInput input;
    input.gradient = array + slice.spec.offset();
    input.weights = second == nullptr ? nullptr : second + slice.spec.offset();
    input.weight_decay = times;
    input.key = slice.key;
    input.step = step;
    input.timed = tensor.trying();
    PSGD_RETURN_IF_ERROR(slice.device_encoder->Start(input, ready));
  }
  return absl::OkStatus();
}

absl::Status UpdateEncoder::Start(int parameter, const DeviceGradient& gradient,
                                  double weight_decay, uint64_t step) {
  weight_decay = tensors_[parameter].DecayOf(weight_decay);
  return StartSlices(parameter, gradient.gradient, weight_decay == 0 ? nullptr : gradient.value,
                     static_cast<float>(weight_decay), gradient.ready, step);
}

absl::Status UpdateEncoder::Start(int parameter, const DeviceDifference& difference,
                                  uint64_t step) {
  return StartSlices(parameter, difference.of, difference.minus, /*times=*/-1, difference.ready,
                     step);
}

absl::StatusOr<bool> UpdateEncoder::IsDone(int parameter) const {
  for (const Slice& slice : tensors_[parameter].slices) {
    PSGD_ASSIGN_OR_RETURN(const bool done, slice.device_encoder->IsDone());
    if (!done) return false;
  }
  return true;
}

absl::Status UpdateEncoder::Finish(int parameter, std::vector<EncodedSlice>* out) {
  Tensor& tensor = tensors_[parameter];
  const size_t before = out->size();
  double encode_seconds = 0;
  for (const Slice& slice : tensor.slices) {
    PSGD_ASSIGN_OR_RETURN(const ByteSpan payload, slice.device_encoder->Finish());
    const CodecId codec = slice.device_encoder->raw() ? CODEC_NONE : tensor.codec->id();
    out->push_back({slice.id, codec, Bytes::CopyOf(payload)});
    if (!tensor.trying()) continue;
    PSGD_ASSIGN_OR_RETURN(const double seconds, slice.device_encoder->Seconds());
    encode_seconds += seconds;
  }
  const auto encoded = std::span(*out).subspan(before);
  encode_seconds += Pack(encoded);
  if (tensor.trying()) Try(tensor, encode_seconds, encoded);
  return absl::OkStatus();
}

namespace {

void Append(ByteSpan bytes, std::vector<float>* values) {
  std::vector<float> more(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(more.data(), bytes.data(), bytes.size());
  values->insert(values->end(), more.begin(), more.end());
}

double SquaredNorm(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

}  // namespace

absl::StatusOr<std::vector<float>> UpdateEncoder::Slice::CopyState() const {
  if (device_encoder != nullptr) return device_encoder->CopyState();
  return encoder->CopyState();
}

absl::Status UpdateEncoder::Slice::LoadState(std::span<const float> arrays) {
  if (device_encoder != nullptr) return device_encoder->LoadState(arrays);
  encoder->LoadState(arrays);
  return absl::OkStatus();
}

bool UpdateEncoder::Slice::takes_residual() const {
  return device_encoder != nullptr ? device_encoder->takes_residual() : encoder->takes_residual();
}

absl::StatusOr<std::vector<std::pair<uint32_t, Bytes>>> UpdateEncoder::CopyResiduals() const {
  std::vector<std::pair<uint32_t, Bytes>> residuals;
  for (const Tensor& tensor : tensors_) {
    for (const Slice& slice : tensor.slices) {
      PSGD_ASSIGN_OR_RETURN(const std::vector<float> state, slice.CopyState());
      if (state.empty()) continue;
      residuals.emplace_back(slice.id, MakeSavedState(state, tensor.codec->memory()));
    }
  }
  return residuals;
}

absl::StatusOr<double> UpdateEncoder::RestoreResiduals(const std::map<uint32_t, Bytes>& residuals) {
  double dropped = 0;
  for (Tensor& tensor : tensors_) {
    for (Slice& slice : tensor.slices) {
      const auto found = residuals.find(slice.id);
      if (found == residuals.end()) continue;
      const auto saved = ReadSavedState(found->second.span(), slice.spec.count());
      if (!saved) {
        return DataLossError("the saved state of slice ", slice.id, " has ", found->second.size(),
                             " bytes, which is none of ", slice.spec.count(), " elements");
      }
      std::vector<float> arrays;
      Append(saved->residual, &arrays);
      if (!slice.takes_residual()) dropped += SquaredNorm(arrays);
      // What another codec remembered, or this one with other settings, would mean nothing.
      if (saved->memory == tensor.codec->memory()) Append(saved->remembered, &arrays);
      PSGD_RETURN_IF_ERROR(slice.LoadState(arrays));
    }
  }
  return std::sqrt(dropped);
}

absl::StatusOr<double> UpdateEncoder::ResidualNorm() const {
  double sum = 0;
  for (const Tensor& tensor : tensors_) {
    for (const Slice& slice : tensor.slices) {
      if (slice.encoder != nullptr) {
        sum += slice.encoder->SquaredNorm();
        continue;
      }
      PSGD_ASSIGN_OR_RETURN(const double squares, slice.device_encoder->SquaredNorm());
      sum += squares;
    }
  }
  return std::sqrt(sum);
}

absl::StatusOr<std::vector<FlushedSlice>> UpdateEncoder::Flush() {
  std::vector<FlushedSlice> flushed;
  for (Tensor& tensor : tensors_) {
    for (Slice& slice : tensor.slices) {
      PSGD_ASSIGN_OR_RETURN(std::vector<float> state, slice.CopyState());
      if (state.empty()) continue;
      const auto residual = std::span(state).first(slice.spec.count());
      for (float& value : residual) value *= residual_decay_;
      const double squares = SquaredNorm(residual);
      if (squares > 0) {
        std::vector<std::byte> payload;
        const bool shorter = nonzero_.Encode(residual, &payload);
        Bytes bytes = shorter ? Bytes::Adopt(std::move(payload)) : Bytes::CopyOf(AsBytes(residual));
        flushed.push_back(
            {{slice.id, shorter ? CODEC_TOPK : CODEC_NONE, std::move(bytes)}, squares});
        Pack({&flushed.back().encoded, 1});
      }
      std::ranges::fill(state, 0.0f);
      PSGD_RETURN_IF_ERROR(slice.LoadState(state));
    }
  }
  return flushed;
}

}  // namespace psgd
