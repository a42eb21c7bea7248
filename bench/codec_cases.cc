#include "bench/codec_cases.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

constexpr uint64_t kSeed = 1;

}  // namespace

// Gaussian values (Box-Muller), roughly as in gradients.
std::vector<float> RandomGradient(size_t elements) {
  RandomStream stream(MakeKey(kSeed, RandomPurpose::kSynthetic), 0);
  std::vector<float> values(elements);
  for (size_t i = 0; i < elements; i += 2) {
    const float radius = std::sqrt(-2 * std::log(1 - stream.NextUnit()));
    const float angle = 6.2831853f * stream.NextUnit();
    values[i] = radius * std::cos(angle);
    if (i + 1 < elements) values[i + 1] = radius * std::sin(angle);
  }
  return values;
}

SliceShape BenchedSlice(size_t elements, size_t begin, size_t slice) {
  constexpr uint64_t kColumns = 1024;
  SliceShape shape;
  shape.elements = static_cast<uint32_t>(std::min(slice, elements - begin));
  shape.tensor_columns = kColumns;
  shape.tensor_rows = (elements + kColumns - 1) / kColumns;
  shape.offset = begin;
  return shape;
}

PhiloxKey BenchedKey(size_t slice) { return MakeKey(kSeed, RandomPurpose::kCodec, slice); }

bool Wanted(const Codec& codec, const std::vector<std::string>& wanted) {
  return wanted.empty() || std::count(wanted.begin(), wanted.end(), codec.name()) > 0;
}

std::vector<CodecConfig> BenchedCodecs() {
  std::vector<CodecConfig> configs = DefaultCodecs();
  // A gradient alone has no factors; see factors_bench.h.
  std::erase_if(configs, [](const CodecConfig& config) { return config.has_factors(); });
  for (CodecConfig& config : configs) {
    // 1 % of the elements reach this tau.
    if (config.has_threshold()) config.mutable_threshold()->set_tau(2.576);
  }
  configs.emplace_back().mutable_topk()->set_values(TopkCodec::FP16);
  configs.emplace_back().mutable_topk()->set_select(TopkCodec::SAMPLED);
  CodecConfig ternary = configs.back();
  ternary.mutable_topk()->set_values(TopkCodec::TERNARY);
  configs.push_back(ternary);
  configs.emplace_back().mutable_int8()->set_rounding(Rounding::NEAREST);
  return configs;
}

std::string CaseName(const Codec& codec, const CodecConfig& config) {
  std::string name(codec.name());
  if (config.topk().select() == TopkCodec::SAMPLED) name += "-sampled";
  if (config.topk().values() == TopkCodec::FP16) name += "-fp16";
  if (config.topk().values() == TopkCodec::TERNARY) name += "-ternary";
  if (config.int8().rounding() == Rounding::NEAREST) name += "-nearest";
  return name;
}

absl::Status CheckCodecNames(const std::vector<std::string>& wanted) {
  for (const std::string& name : wanted) {
    bool known = false;
    std::string names;
    for (const CodecConfig& config : DefaultCodecs()) {
      PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<Codec> codec, MakeCodec(config));
      known |= name == codec->name();
      absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(codec->name()));
    }
    if (!known) {
      return InvalidArgumentError("no codec is named '", name, "'; there are ", names);
    }
  }
  return absl::OkStatus();
}

}  // namespace psgd
