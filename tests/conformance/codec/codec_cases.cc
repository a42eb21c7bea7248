#include "tests/conformance/codec/codec_cases.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "hwy/targets.h"

namespace psgd::codec_test {
namespace {

// Roughly Gaussian.
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
    cases.push_back({name, {}});
    return cases.back().config;
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

UseTwin::UseTwin(const Twin& twin) {
  hwy::SetSupportedTargetsForTest(twin.target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

UseTwin::~UseTwin() {
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

std::unique_ptr<Codec> Make(const CodecCase& codec, CodecBackend backend) {
  return MakeCodec(codec.config, {backend}).value();
}

SliceShape ShapeOf(size_t elements) {
  SliceShape shape;
  shape.elements = static_cast<uint32_t>(elements);
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
  return kLengths[stream->NextBelow(std::size(kLengths))];
}

}  // namespace psgd::codec_test
