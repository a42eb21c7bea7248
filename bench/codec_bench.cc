#include "bench/codec_bench.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "bench/machine_limits.h"
#include "common/clock.h"
#include "common/philox.h"
#include "compression/codec.h"

namespace psgd {
namespace {

constexpr size_t kBlock = 4096;  // elements that a shard decodes at a time
constexpr uint64_t kSeed = 1;
constexpr uint64_t kColumns = 1024;

// Gaussian values (Box and Muller), as gradients roughly are.
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

// One codec on one backend at work on all slices.
class Subject {
 public:
  Subject(const Codec& codec, const std::vector<float>& gradient, size_t slice)
      : codec_(codec),
        gradient_(gradient),
        residual_(codec.keeps_residual() ? gradient.size() : 0),
        slice_(slice) {
    for (size_t begin = 0; begin < gradient.size(); begin += slice) {
      SliceShape shape;
      shape.elements = static_cast<uint32_t>(std::min(slice, gradient.size() - begin));
      // A large dense layer's.
      shape.tensor_columns = kColumns;
      shape.tensor_rows = (gradient.size() + kColumns - 1) / kColumns;
      shape.offset = begin;
      shapes_.push_back(shape);
      encoders_.push_back(codec.NewEncoder(shape));
      payloads_.emplace_back();
    }
  }

  void Encode() {
    ++step_;
    for (size_t s = 0; s < shapes_.size(); ++s) {
      EncodeInput input;
      input.gradient = std::span(gradient_).subspan(s * slice_, shapes_[s].elements);
      if (!residual_.empty()) {
        input.residual = std::span(residual_).subspan(s * slice_, shapes_[s].elements);
      }
      input.key = MakeKey(kSeed, RandomPurpose::kCodec, s);
      input.step = step_;
      payloads_[s].clear();
      encoders_[s]->Encode(input, &payloads_[s]);
    }
  }

  absl::Status DecodeTo(float scale, std::span<float> weights) const {
    for (size_t s = 0; s < shapes_.size(); ++s) {
      PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<PayloadReader> reader,
                            codec_.Open(payloads_[s], shapes_[s]));
      std::span<float> left = weights.subspan(s * slice_, shapes_[s].elements);
      while (!left.empty()) {
        const size_t count = std::min(kBlock, left.size());
        reader->AddBlock(scale, left.first(count));
        left = left.subspan(count);
      }
    }
    return absl::OkStatus();
  }

  // What was to be sent must be what was sent and what stayed, to the bit: in a first step and,
  // where nothing else is remembered, in a second.
  bool Verify() {
    const int steps = codec_.state_arrays() == 0 ? 2 : 1;
    for (int step = 0; step < steps; ++step) {
      std::vector<float> corrected(gradient_);
      for (size_t i = 0; i < residual_.size(); ++i) corrected[i] += residual_[i];
      Encode();
      std::vector<float> decoded(gradient_.size());
      if (!DecodeTo(1, decoded).ok() || !Complete(corrected, decoded)) return false;
    }
    return true;
  }

  size_t payload_bytes() const {
    size_t bytes = 0;
    for (const auto& payload : payloads_) bytes += payload.size();
    return bytes;
  }
  size_t slices() const { return shapes_.size(); }

 private:
  bool Complete(const std::vector<float>& corrected, const std::vector<float>& decoded) const {
    for (size_t i = 0; i < corrected.size(); ++i) {
      // Where nothing is kept of what is lost, signs are all that is promised.
      const bool signs = residual_.empty() && !codec_.lossless();
      if (signs ? std::signbit(corrected[i]) != std::signbit(decoded[i])
                : corrected[i] - decoded[i] != (residual_.empty() ? 0 : residual_[i])) {
        return false;
      }
    }
    return true;
  }

  const Codec& codec_;
  const std::vector<float>& gradient_;
  std::vector<float> residual_;
  const size_t slice_;
  std::vector<SliceShape> shapes_;
  std::vector<std::unique_ptr<Encoder>> encoders_;
  std::vector<std::vector<std::byte>> payloads_;
  uint64_t step_ = 0;
};

struct Timing {
  double best = 0;
  double median = 0;
};

template <typename Work>
Timing MeasureSeconds(int repeats, Work work) {
  std::vector<double> seconds;
  for (int i = 0; i < std::max(1, repeats); ++i) {
    const Time start = SteadyNow();
    work();
    seconds.push_back(Seconds(SteadyNow() - start));
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds.front(), seconds[seconds.size() / 2]};
}

std::vector<BenchRow> MeasureCodec(const Codec& codec, const std::string& name,
                                   const std::string& backend, const std::vector<float>& gradient,
                                   const CodecBenchOptions& options) {
  Subject subject(codec, gradient, options.slice);
  const bool verified = subject.Verify();
  const double limit = MeasureMemcpy();
  const double bytes = static_cast<double>(gradient.size() * sizeof(float));
  std::vector<BenchRow> rows;
  const auto add = [&](const char* direction, auto work) {
    BenchRow row;
    row.bench = "codec";
    row.name = absl::StrCat(name, "/", direction, "/", backend);
    row.limit_gbps = limit;
    row.verified = verified;
    if (verified) {
      const Timing timing = MeasureSeconds(options.repeats, work);
      row.gbps = bytes / timing.best / 1e9;
      row.extra["gbps_median"] = bytes / timing.median / 1e9;
    }
    row.ratio = row.gbps / limit;
    row.extra["wire_ratio"] = bytes / static_cast<double>(subject.payload_bytes());
    row.extra["slices"] = static_cast<double>(subject.slices());
    rows.push_back(std::move(row));
  };
  add("encode", [&] { subject.Encode(); });
  std::vector<float> weights(gradient);
  add("decode", [&] { (void)subject.DecodeTo(-0.01f, weights); });
  return rows;
}

// Every codec with its defaults (but a tau that fits the gradient), and those options that change what is done.
std::vector<CodecConfig> BenchedCodecs() {
  std::vector<CodecConfig> configs = DefaultCodecs();
  // Of a gradient alone there are no factors.
  std::erase_if(configs, [](const CodecConfig& config) { return config.has_factors(); });
  for (CodecConfig& config : configs) {
    // What 1 % of the elements reach.
    if (config.has_threshold()) config.mutable_threshold()->set_tau(2.576);
  }
  configs.emplace_back().mutable_topk()->set_select(TopkCodec::SAMPLED);
  CodecConfig ternary = configs.back();
  ternary.mutable_topk()->set_values(TopkCodec::TERNARY);
  configs.push_back(ternary);
  configs.emplace_back().mutable_int8()->set_rounding(Rounding::NEAREST);
  return configs;
}

// The codec's name, and what of its options is not the default.
std::string CaseName(const Codec& codec, const CodecConfig& config) {
  std::string name(codec.name());
  if (config.topk().select() == TopkCodec::SAMPLED) name += "-sampled";
  if (config.topk().values() == TopkCodec::TERNARY) name += "-ternary";
  if (config.int8().rounding() == Rounding::NEAREST) name += "-nearest";
  return name;
}

absl::Status CheckNames(const std::vector<std::string>& wanted) {
  for (const std::string& name : wanted) {
    bool known = false;
    std::string names;
    for (const CodecConfig& config : DefaultCodecs()) {
      if (config.has_factors()) continue;
      PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<Codec> codec, MakeCodec(config));
      known |= name == codec->name();
      absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(codec->name()));
    }
    if (!known) {
      return absl::InvalidArgumentError(
          absl::StrCat("no codec is named '", name, "'; there are ", names));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<BenchRow>> RunCodecBench(const CodecBenchOptions& options) {
  if (options.elements == 0 || options.slice == 0 || options.slice > (size_t{1} << 20)) {
    return absl::InvalidArgumentError(
        "the codec benchmark needs at least one element, in slices of 1 to 1048576");
  }
  PSGD_RETURN_IF_ERROR(CheckNames(options.codecs));
  const std::vector<float> gradient = RandomGradient(options.elements);
  std::vector<CodecBackend> backends = {CodecBackend::kSimd};
  if (options.scalar) backends.push_back(CodecBackend::kScalar);

  std::vector<BenchRow> rows;
  for (const CodecConfig& config : BenchedCodecs()) {
    for (CodecBackend backend : backends) {
      PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<Codec> codec, MakeCodec(config, {backend}));
      const std::string name(codec->name());
      const auto& wanted = options.codecs;
      if (!wanted.empty() && std::count(wanted.begin(), wanted.end(), name) == 0) continue;
      const char* twin = backend == CodecBackend::kSimd ? "simd" : "scalar";
      for (BenchRow& row :
           MeasureCodec(*codec, CaseName(*codec, config), twin, gradient, options)) {
        rows.push_back(std::move(row));
      }
    }
  }
  return rows;
}

}  // namespace psgd
