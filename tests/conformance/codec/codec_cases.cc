#include "tests/conformance/codec/codec_cases.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "hwy/targets.h"

namespace psgd::codec_test {
namespace {

// Returns a roughly Gaussian number.
float Bell(RandomStream* stream) {
  float sum = -6;
  for (int i = 0; i < 12; ++i) sum += stream->NextUnit();
  return sum;
}

float AnyFinite(RandomStream* stream) {
  for (;;) {
    const float value = std::bit_cast<float>(stream->NextBits());
    if (std::isfinite(value)) return value;
  }
}

float Subnormal(RandomStream* stream) {
  return std::bit_cast<float>(stream->NextBits() & 0x807FFFFFu);
}

}  // namespace

std::vector<CodecCase> AllCases() {
  std::vector<CodecCase> cases;
  const auto add = [&](const char* name) -> CodecConfig& {
    cases.push_back({name, {}, true});
    return cases.back().config;
  };
  const auto add_qsgd = [&](const char* name, int bits, QsgdCodec::Norm norm,
                            Rounding::Kind rounding) -> QsgdCodec& {
    QsgdCodec& qsgd = *add(name).mutable_qsgd();
    qsgd.set_bits(bits);
    qsgd.set_norm(norm);
    qsgd.set_rounding(rounding);
    return qsgd;
  };
  add("none").mutable_none();
  add("fp16").mutable_fp16();
  add("topk").mutable_topk();
  add("topk_quarter").mutable_topk()->set_density(0.25);
  add("topk_all").mutable_topk()->set_density(1);
  add("topk_few").mutable_topk()->set_density(0.0001);
  add("onebit").mutable_onebit();
  add("onebit_small_blocks").mutable_onebit()->set_block(64);
  add("ternary").mutable_ternary();
  add("ternary_unclipped").mutable_ternary()->set_clip(0);
  add("bf16").mutable_bf16();
  add("int8").mutable_int8();
  add("int8_nearest").mutable_int8()->set_rounding(Rounding::NEAREST);
  add("int8_small_blocks").mutable_int8()->set_block(64);
  add("qsgd").mutable_qsgd();
  add_qsgd("qsgd_2_nearest", 2, QsgdCodec::MAX, Rounding::NEAREST);
  add_qsgd("qsgd_3_small_blocks", 3, QsgdCodec::MAX, Rounding::STOCHASTIC).set_block(64);
  add_qsgd("qsgd_5", 5, QsgdCodec::MAX, Rounding::STOCHASTIC).set_block(4160);
  add_qsgd("qsgd_8_l2", 8, QsgdCodec::L2, Rounding::STOCHASTIC).set_block(64);
  add("natural").mutable_natural();
  add("sign").mutable_sign();
  add("signum").mutable_signum();
  cases.back().conserves = false;
  add("topk_sampled").mutable_topk()->set_select(TopkCodec::SAMPLED);
  add("topk_half").mutable_topk()->set_values(TopkCodec::FP16);
  add("topk_half_most").mutable_topk()->set_values(TopkCodec::FP16);
  cases.back().config.mutable_topk()->set_density(0.95);
  add("topk_ternary").mutable_topk()->set_values(TopkCodec::TERNARY);
  add("topk_ternary_all").mutable_topk()->set_values(TopkCodec::TERNARY);
  cases.back().config.mutable_topk()->set_density(1);
  add("randomk").mutable_randomk();
  add("randomk_third").mutable_randomk()->set_density(1 / 3.0);
  add("randomk_all").mutable_randomk()->set_density(1);
  add("threshold").mutable_threshold();
  cases.back().conserves = false;  // steps of 2^-17 beside integers of hundreds need 25 bits
  add("threshold_quarter").mutable_threshold()->set_tau(0.25);
  add("blocks").mutable_blocks();
  add("blocks_of_7").mutable_blocks()->set_block(7);
  cases.back().config.mutable_blocks()->set_density(0.3);
  add("blocks_all").mutable_blocks()->set_density(1);
  add("chunked").mutable_chunked();
  const auto add_chunked = [&](const char* name, int chunk, int keep, int bits) {
    ChunkedCodec& chunked = *add(name).mutable_chunked();
    chunked.set_chunk(chunk);
    chunked.set_keep(keep);
    chunked.set_bits(bits);
  };
  add_chunked("chunked_of_97", 97, 5, 3);
  add_chunked("chunked_all", 64, 64, 8);
  cases.back().conserves = false;  // of 128 levels, some are tiny beside integers of hundreds
  add_chunked("chunked_long", 65536, 3000, 4);
  add("dgc_without_momentum").mutable_dgc()->set_momentum(0);
  add("dgc").mutable_dgc()->set_density(0.02);
  cases.back().conserves = false;  // momentum adds to the input
  add("dgc_clipped").mutable_dgc()->set_density(0.02);
  cases.back().config.mutable_dgc()->set_clip(0.5);
  cases.back().conserves = false;
  add("dgc_warming").mutable_dgc()->set_density(0.02);
  cases.back().config.mutable_dgc()->mutable_warmup()->set_steps(100);
  cases.back().conserves = false;
  add("powersgd").mutable_powersgd();
  cases.back().conserves = false;  // products of floats are not on a grid
  add("powersgd_1").mutable_powersgd()->set_rank(1);
  cases.back().conserves = false;
  add("factors").mutable_factors();
  return cases;
}

void PrintTo(const CodecCase& codec, std::ostream* out) { *out << codec.name; }

std::vector<Twin> AllTwins() {
  std::vector<Twin> twins = {{"scalar", CodecBackend::kScalar, 0}};
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    twins.push_back({hwy::TargetName(target), CodecBackend::kSimd, target});
  }
  return twins;
}

// Detection asks the processor, which a hypervisor answers slowly.
static int64_t DetectedTargets() {
  static const int64_t detected = hwy::SupportedTargets();
  return detected;
}

UseTwin::UseTwin(const Twin& twin) {
  const int64_t detected = DetectedTargets();
  const int64_t targets = twin.target != 0 ? twin.target : detected;
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(targets);
}

UseTwin::~UseTwin() {
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(DetectedTargets());
}

std::unique_ptr<Codec> Make(const CodecCase& codec, CodecBackend backend) {
  return MakeCodec(codec.config, {backend}).value();
}

SliceShape ShapeOf(size_t elements) {
  constexpr uint64_t kColumns = 61, kOffset = 17;
  SliceShape shape;
  shape.elements = static_cast<uint32_t>(elements);
  shape.offset = kOffset;
  shape.tensor_columns = kColumns;
  shape.tensor_rows = (kOffset + elements) / kColumns + 2;
  return shape;
}

Encoded EncodeSteps(const Codec& codec, const std::vector<std::vector<float>>& gradients,
                    bool keep_residual, uint64_t seed) {
  const size_t elements = gradients[0].size();
  Encoded encoded;
  encoded.residual.resize(keep_residual ? elements : 0);
  const auto encoder = codec.NewEncoder(ShapeOf(elements));
  uint64_t step = seed;
  for (const auto& gradient : gradients) {
    const PhiloxKey key = MakeKey(seed, RandomPurpose::kCodec);
    encoder->Encode({gradient, encoded.residual, key, ++step}, &encoded.payloads.emplace_back());
  }
  return encoded;
}

std::vector<float> Decode(const Codec& codec, ByteSpan payload, size_t elements, size_t block) {
  const auto reader = codec.Open(payload, ShapeOf(elements)).value();
  std::vector<float> values(elements);
  for (size_t begin = 0; begin < elements; begin += block) {
    reader->AddBlock(1, std::span(values).subspan(begin, std::min(block, elements - begin)));
  }
  return values;
}

std::vector<float> RandomTensor(size_t elements, RandomStream* stream) {
  std::vector<float> values(elements);
  const uint32_t kind = stream->NextBelow(8);
  const float scale = std::ldexp(1.0f, static_cast<int>(stream->NextBelow(40)) - 30);
  const auto fill = [&](auto draw) { std::generate(values.begin(), values.end(), draw); };
  switch (kind) {
    case 0:
    case 1:
      fill([&] { return scale * Bell(stream); });
      break;
    case 2:
      fill([&] { return static_cast<float>(stream->NextBelow(9)) - 4; });
      break;
    case 3:
      fill([&] { return stream->NextBelow(20) == 0 ? scale * Bell(stream) : 0.0f; });
      break;
    case 4:
      fill([&] { return Subnormal(stream); });
      break;
    case 5:
      fill([&] { return stream->NextBelow(2) == 0 ? scale : -scale; });
      break;
    case 6:
      fill([&] { return scale * Bell(stream); });
      if (elements > 0) values[stream->NextBelow(static_cast<uint32_t>(elements))] = 3e38f;
      break;
    default:
      fill([&] { return AnyFinite(stream); });
  }
  return values;
}

size_t RandomLength(RandomStream* stream) {
  static constexpr size_t kLengths[] = {0,   1,    2,    3,    5,    7,    13,  31,
                                        63,  64,   65,   97,   127,  319,  320, 321,
                                        641, 1009, 1600, 1999, 4095, 4096, 4097};
  // Longer than one stretch of a sum, and long enough for sampling.
  static constexpr size_t kLong[] = {5119, 5121, 16384, 20011, 65537};
  if (stream->NextBelow(64) == 0) return kLong[stream->NextBelow(std::size(kLong))];
  return kLengths[stream->NextBelow(std::size(kLengths))];
}

}  // namespace psgd::codec_test
