#include "compression/policy.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/glob.h"
#include "proto/parameter_match.h"

namespace psgd {
namespace {

// Whether a tensor has fewer bytes than dense_below, or no elements.
bool IsSmall(const CompressionConfig& config, const ParameterSpec& parameter) {
  // Multiplies dimension by dimension and stops once it is large enough, so it cannot overflow.
  int64_t bytes = sizeof(float);
  for (int64_t extent : parameter.shape()) {
    if (extent == 0) return true;
    if (bytes < config.dense_below()) {
      bytes = extent > config.dense_below() / bytes ? config.dense_below() : bytes * extent;
    }
  }
  return bytes < config.dense_below();
}

CodecConfig NoCodec() {
  CodecConfig none;
  none.mutable_none();
  return none;
}

// Returns null if no rule fits.
const CompressionRule* RuleOf(const CompressionConfig& config, const ParameterSpec& parameter) {
  for (const CompressionRule& rule : config.rules()) {
    if (GlobMatches(rule.match(), parameter.name())) return &rule;
  }
  return nullptr;
}

// Whether a push has a value for each element, zeros included.
bool SendsZeros(const CodecConfig& codec) {
  switch (codec.kind_case()) {
    case CodecConfig::kFp16:
    case CodecConfig::kBf16:
    case CodecConfig::kInt8:
    case CodecConfig::kQsgd:
    case CodecConfig::kNatural:
    case CodecConfig::kOnebit:
    case CodecConfig::kSign:
    case CodecConfig::kTernary:
    case CodecConfig::kPowersgd:
      return true;
    default:
      return false;
  }
}

// Sends every element of a small tensor in a way that suits the codec. The server's optimizer is
// the same for all tensors: if the worker applies its momentum, or sends signs for gradients, it
// does so for small tensors too.
CodecConfig Whole(CodecConfig codec) {
  if (codec.has_signum()) return codec;
  if (!codec.has_dgc()) return NoCodec();
  codec.mutable_dgc()->set_density(1);
  codec.mutable_dgc()->clear_warmup();
  return codec;
}

}  // namespace

bool SendsSingleElements(const CodecConfig& codec) {
  if (codec.has_auto_()) {
    return std::ranges::any_of(Candidates(codec.auto_()), SendsSingleElements);
  }
  switch (codec.kind_case()) {
    case CodecConfig::kTopk:
    case CodecConfig::kRandomk:
    case CodecConfig::kThreshold:
    case CodecConfig::kChunked:
    case CodecConfig::kDgc:
      return true;
    default:
      return false;
  }
}

CodecConfig ChooseCodec(const CompressionConfig& config, const ParameterSpec& parameter) {
  if (parameter.role() == ParameterSpec::STATISTIC) return NoCodec();
  const CompressionRule* const rule = RuleOf(config, parameter);
  CodecConfig chosen = rule != nullptr ? rule->push() : config.push();
  if (chosen.kind_case() == CodecConfig::KIND_NOT_SET) chosen = NoCodec();
  if (IsSmall(config, parameter)) return Whole(std::move(chosen));
  if (parameter.sparse() && (chosen.has_auto_() || (rule == nullptr && SendsZeros(chosen))))
    return NoCodec();
  return chosen;
}

std::string CarriedText(const CompressionConfig& config, const ModelSpec& model) {
  if (!config.has_push() || config.push().has_none()) return "";
  int tensors = 0, carried = 0;
  double weights = 0, carried_weights = 0;
  for (const ParameterSpec& parameter : model.parameters()) {
    if (parameter.role() == ParameterSpec::STATISTIC || RuleOf(config, parameter) != nullptr) {
      continue;
    }
    const bool carries =
        ChooseCodec(config, parameter).SerializeAsString() == config.push().SerializeAsString();
    if (!carries && !IsSmall(config, parameter)) continue;  // sparse: none suits it better
    double elements = 1;
    for (const int64_t extent : parameter.shape()) elements *= static_cast<double>(extent);
    ++tensors;
    weights += elements;
    if (!carries) continue;
    ++carried;
    carried_weights += elements;
  }
  if (weights == 0 || carried_weights >= weights / 2) return "";
  return absl::StrCat(carried, " of ", tensors, " tensors");
}

std::string LeftOutText(const CompressionConfig& config, const ModelSpec& model) {
  const std::string carried = CarriedText(config, model);
  if (carried.empty()) return "";
  return absl::StrCat("codec ", PushCodecName(config), " carries ", carried,
                      ": the others have fewer than ", config.dense_below(),
                      " bytes (compression.dense_below) and travel whole");
}

std::string FullDensityText(const CompressionConfig& config) {
  const CodecConfig& codec = config.push();
  const bool full = codec.topk().density() == 1 || codec.randomk().density() == 1 ||
                    codec.blocks().density() == 1 || codec.dgc().density() == 1;
  if (!full) return "";
  const std::string name = PushCodecName(config);
  return absl::StrCat("compression.push.", name, ".density is 1, a share from 0 to 1: ", name,
                      " leaves nothing out, and takes as many bytes as none or more; 1 % is 0.01");
}

bool PushesFactors(const CompressionConfig& config) {
  return config.push().has_factors() ||
         std::ranges::any_of(config.rules(),
                             [](const CompressionRule& rule) { return rule.push().has_factors(); });
}

CompressionConfig InSteps(CompressionConfig config, double steps_per_epoch) {
  const auto count = [&](CodecConfig* codec) {
    if (!codec->dgc().warmup().has_epochs()) return;
    constexpr double kMost = 1e15;
    const double steps = std::ceil(codec->dgc().warmup().epochs() * steps_per_epoch);
    codec->mutable_dgc()->mutable_warmup()->set_steps(
        static_cast<int64_t>(std::clamp(steps, 0.0, kMost)));
  };
  if (config.has_push()) count(config.mutable_push());
  for (CompressionRule& rule : *config.mutable_rules()) {
    if (rule.has_push()) count(rule.mutable_push());
  }
  return config;
}

std::string PushCodecName(const CompressionConfig& config) {
  const auto* field = CodecConfig::descriptor()->FindFieldByNumber(config.push().kind_case());
  return field == nullptr ? "none" : field->name();
}

std::vector<CodecConfig> Candidates(const AutoCodec& config) {
  std::vector<CodecConfig> candidates(1);
  candidates[0].mutable_fp16();
  for (const CodecConfig& codec : config.codecs()) {
    if (!codec.has_fp16()) candidates.push_back(codec);
  }
  if (config.codecs().empty()) {
    candidates.resize(4);
    candidates[1].mutable_int8();
    candidates[2].mutable_onebit();
    candidates[3].mutable_topk();
  }
  return candidates;
}

std::string CodecText(const CodecConfig& codec) {
  using google::protobuf::TextFormat;
  const auto* kind = CodecConfig::descriptor()->FindFieldByNumber(codec.kind_case());
  if (kind == nullptr) return "none";
  const auto& options = codec.GetReflection()->GetMessage(codec, kind);
  const auto& usual = CodecConfig::default_instance().GetReflection()->GetMessage(
      CodecConfig::default_instance(), kind);
  std::vector<std::string> others;
  for (int i = 0; i < kind->message_type()->field_count(); ++i) {
    const auto& field = *kind->message_type()->field(i);
    if (field.is_repeated()) continue;
    std::string value, usual_value;
    TextFormat::PrintFieldValueToString(options, &field, -1, &value);
    TextFormat::PrintFieldValueToString(usual, &field, -1, &usual_value);
    if (value == usual_value) continue;
    others.push_back(absl::StrCat(field.name(), ": ", absl::AsciiStrToLower(value)));
  }
  if (others.empty()) return kind->name();
  return absl::StrCat(kind->name(), "(", absl::StrJoin(others, ", "), ")");
}

absl::Status CheckRules(const CompressionConfig& config, const ModelSpec& model) {
  for (int i = 0; i < config.rules_size(); ++i) {
    PSGD_RETURN_IF_ERROR(CheckMatch(absl::StrCat("compression.rules[", i, "].match"),
                                    config.rules(i).match(), model));
  }
  return absl::OkStatus();
}

}  // namespace psgd
