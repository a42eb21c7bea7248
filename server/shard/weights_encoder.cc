#include "server/shard/weights_encoder.h"

#include <utility>

#include "compression/sparse/sparse_payload.h"

namespace psgd {
namespace {

// The codec of whole weights; not set: fp32.
CodecConfig WholeCodec(const PullCodecConfig& pull) {
  CodecConfig codec;
  if (pull.has_fp16()) codec.mutable_fp16();
  if (pull.has_bf16()) codec.mutable_bf16();
  if (pull.has_int8()) *codec.mutable_int8() = pull.int8();
  return codec;
}

}  // namespace

WeightsEncoder::WeightsEncoder(const Config& config, uint32_t starts)
    : seed_(config.seed()),
      dense_below_(static_cast<uint64_t>(config.compression().dense_below())),
      kernels_(KernelsFor(CodecBackend::kSimd)),
      packer_(Packer::Make(config.compression().lossless())) {
  BeginLife(starts);
  const PullCodecConfig& pull = config.compression().pull();
  const CodecConfig whole = WholeCodec(pull);
  if (whole.kind_case() != CodecConfig::KIND_NOT_SET) {
    whole_codec_ = *MakeCodec(whole);
    whole_ = whole_codec_->NewEncoder({});
  } else if (pull.has_delta() && pull.delta().has_codec()) {
    difference_ = *MakeCodec(pull.delta().codec());
  } else {
    changes_ = pull.has_delta();
  }
}

Bytes WeightsEncoder::Encode(SliceState& slice, uint64_t clock, uint64_t mark, SentWeights* sent,
                             PullPart* part) {
  part->set_version(slice.version);
  if (slice.role != ParameterSpec::TRAINED) return slice.weights.Share();
  if (changes_) return Changes(slice, mark, part);
  if (difference_ != nullptr && !IsSmall(slice)) {
    return Difference(slice, clock, mark, sent, part);
  }
  return Whole(slice, mark, part);
}

PackedPayload WeightsEncoder::Pack(SliceState& slice, const Bytes& payload, PullPart::Form form) {
  if (packer_ == nullptr) return {};
  // A payload for only one worker is not kept, nor one without a change.
  const bool kept = form == PullPart::WHOLE || (changes_ && form == PullPart::CHANGED);
  if (!kept) {
    return packer_->Pack(payload.span(), &slice.packing);
  }
  const uint64_t since = form == PullPart::WHOLE ? 0 : slice.encoded_since;
  if (slice.packed_version != slice.version || slice.packed_since != since) {
    slice.packed = packer_->Pack(payload.span(), &slice.packing);
    slice.packed_version = slice.version;
    slice.packed_since = since;
  }
  return slice.packed;
}

// Small tensors, such as biases, would share a scale with much larger values, or be left out.
bool WeightsEncoder::IsSmall(const SliceState& slice) const {
  const uint64_t elements = slice.shape.tensor_rows * slice.shape.tensor_columns;
  return elements * sizeof(float) < dense_below_;
}

Bytes WeightsEncoder::NoChange(const SliceState& slice, PullPart::Form form, PullPart* part) const {
  part->set_codec(CODEC_TOPK);
  part->set_form(form);
  std::vector<std::byte> nothing;
  WriteSparse({{}, {}, slice.weights.size()}, ValueCoding::kFloat, 0, kernels_, &nothing);
  return Bytes::Adopt(std::move(nothing));
}

std::optional<uint64_t> WeightsEncoder::VersionOf(uint64_t mark) const {
  if (mark <= life_ || mark >> kVersionBits != life()) return std::nullopt;
  return mark - life_ - 1;
}

Bytes WeightsEncoder::Whole(SliceState& slice, uint64_t mark, PullPart* part) {
  part->set_mark(MarkOf(slice));
  if (mark == part->mark()) return NoChange(slice, PullPart::CHANGED, part);
  const bool by_blocks = whole_ != nullptr && whole_codec_->id() == CODEC_INT8;
  if (whole_ == nullptr || (by_blocks && IsSmall(slice))) return slice.weights.Share();
  part->set_codec(whole_codec_->id());
  if (slice.encoded.empty() || slice.encoded_version != slice.version) {
    std::vector<std::byte> bytes;
    EncodeInput input;
    input.gradient = slice.weights.read();
    // The key is the same for all workers.
    input.key = MakeKey(seed_, RandomPurpose::kWeights, slice.id);
    input.step = slice.version;
    whole_->Encode(input, &bytes);
    slice.encoded = Bytes::Adopt(std::move(bytes));
    slice.encoded_version = slice.version;
  }
  return slice.encoded;
}

Bytes WeightsEncoder::Changes(SliceState& slice, uint64_t mark, PullPart* part) {
  part->set_mark(MarkOf(slice));
  const std::optional<uint64_t> held = VersionOf(mark);
  if (!held) return slice.weights.Share();
  if (slice.encoded_version != slice.version || slice.encoded_since != mark) {
    slice.encoded_version = slice.version;
    slice.encoded_since = mark;
    slice.encoded = {};
    if (const auto changed = slice.changes->Since(*held)) {
      const std::span<const float> weights = slice.weights.read();
      values_.clear();
      for (uint32_t index : *changed) values_.push_back(weights[index]);
      std::vector<std::byte> bytes;
      WriteSparse({*changed, values_, weights.size()}, ValueCoding::kFloat, 0, kernels_, &bytes);
      if (bytes.size() < weights.size_bytes()) slice.encoded = Bytes::Adopt(std::move(bytes));
    }
  }
  if (slice.encoded.empty()) return slice.weights.Share();
  part->set_codec(CODEC_TOPK);
  part->set_form(PullPart::CHANGED);
  return slice.encoded;
}

std::optional<Bytes> WeightsEncoder::EncodeUpdates(std::span<const SliceState> tensor,
                                                   uint64_t mark,
                                                   const UpdateReader& reader) const {
  const std::optional<uint64_t> held = VersionOf(mark);
  if (!held || !tensor.front().updates) return std::nullopt;
  const auto updates = tensor.front().updates->Since(*held);
  if (!updates || updates->empty()) return std::nullopt;
  size_t whole = 0;
  for (const SliceState& slice : tensor) {
    const auto own = slice.updates->Since(*held);
    if (!own || !AreSame(*updates, *own)) return std::nullopt;
    whole += slice.weights.read().size_bytes();
  }
  if (UpdateBytes(*updates, reader) >= whole) return std::nullopt;
  return Bytes::Adopt(WriteFactorUpdates(*updates, reader));
}

Bytes WeightsEncoder::Difference(SliceState& slice, uint64_t clock, uint64_t mark,
                                 SentWeights* sent, PullPart* part) {
  const std::span<const float> weights = slice.weights.read();
  const bool expected = sent->mark != 0 && sent->mark == mark;
  if (expected && sent->version == slice.version && sent->clock == clock) {
    part->set_mark(mark);
    return NoChange(slice, PullPart::DIFFERENCE, part);
  }
  sent->mark = ++marks_;
  sent->version = slice.version;
  sent->clock = clock;
  part->set_mark(sent->mark);
  if (!expected) {
    sent->values.assign(weights.begin(), weights.end());
    return slice.weights.Share();
  }
  if (sent->encoder == nullptr) sent->encoder = difference_->NewEncoder(slice.shape);
  values_.resize(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) values_[i] = weights[i] - sent->values[i];
  std::vector<std::byte> bytes;
  EncodeInput input;
  input.gradient = values_;
  // Some codecs adapt what they send to what they leave out, as for a worker's residual. The values
  // left out are in the next difference.
  left_out_.assign(weights.size(), 0.0f);
  input.residual = left_out_;
  // The key is the same for all workers and does not use the mark: the order of answers must not
  // change the random numbers.
  input.key = MakeKey(seed_, RandomPurpose::kWeights, slice.id);
  input.step = clock;
  sent->encoder->Encode(input, &bytes);
  const auto reader = difference_->Open(bytes, slice.shape);
  if (!reader.ok()) {
    // The weights are not finite. The worker must see that.
    sent->values.assign(weights.begin(), weights.end());
    return slice.weights.Share();
  }
  // The worker adds the same difference.
  (*reader)->AddBlock(1.0f, sent->values);
  part->set_codec(difference_->id());
  part->set_form(PullPart::DIFFERENCE);
  return Bytes::Adopt(std::move(bytes));
}

}  // namespace psgd
