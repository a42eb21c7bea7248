#include "bench/codec_bench.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>

#include "absl/strings/str_cat.h"
#include "bench/codec_cases.h"
#include "bench/device_codec_bench.h"
#include "bench/factors_bench.h"
#include "bench/machine_limits.h"
#include "compression/codec.h"
#include "compression/lossless.h"

namespace psgd {
namespace {

constexpr size_t kBlock = 4096;  // elements that a shard decodes at once

// One codec on one backend, applied to all slices.
class Subject {
 public:
  Subject(const Codec& codec, const LosslessConfig& lossless, const std::vector<float>& gradient,
          size_t slice)
      : codec_(codec),
        packer_(Packer::Make(lossless)),
        gradient_(gradient),
        residual_(codec.keeps_residual() ? gradient.size() : 0),
        slice_(slice) {
    for (size_t begin = 0; begin < gradient.size(); begin += slice) {
      shapes_.push_back(BenchedSlice(gradient.size(), begin, slice));
      encoders_.push_back(codec.NewEncoder(shapes_.back()));
      payloads_.emplace_back();
    }
    habits_.resize(shapes_.size());
    packed_.resize(shapes_.size());
  }

  void Encode() {
    ++step_;
    for (size_t s = 0; s < shapes_.size(); ++s) {
      EncodeInput input;
      input.gradient = std::span(gradient_).subspan(s * slice_, shapes_[s].elements);
      if (!residual_.empty()) {
        input.residual = std::span(residual_).subspan(s * slice_, shapes_[s].elements);
      }
      input.key = BenchedKey(s);
      input.step = step_;
      payloads_[s].clear();
      encoders_[s]->Encode(input, &payloads_[s]);
      if (packer_ != nullptr) packed_[s] = packer_->Pack(payloads_[s], &habits_[s]);
    }
  }

  absl::Status DecodeTo(float scale, std::span<float> weights) const {
    for (size_t s = 0; s < shapes_.size(); ++s) {
      Bytes payload = Bytes::Unowned(payloads_[s]);
      if (packed_[s].planes > 0) {
        PSGD_ASSIGN_OR_RETURN(payload, Unpack(packed_[s].frame, packed_[s].planes,
                                              codec_.MaxPayload(shapes_[s].elements)));
      }
      PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<PayloadReader> reader,
                            codec_.Open(payload.span(), shapes_[s]));
      std::span<float> left = weights.subspan(s * slice_, shapes_[s].elements);
      while (!left.empty()) {
        const size_t count = std::min(kBlock, left.size());
        reader->AddBlock(scale, left.first(count));
        left = left.subspan(count);
      }
    }
    return absl::OkStatus();
  }

  // Checks to the bit that what was sent and the residual add up to the input: in a first step, and
  // in a second if the encoder remembers nothing else.
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
    for (size_t s = 0; s < payloads_.size(); ++s) {
      bytes += packed_[s].planes > 0 ? packed_[s].frame.size() : payloads_[s].size();
    }
    return bytes;
  }
  size_t slices() const { return shapes_.size(); }

 private:
  bool Complete(const std::vector<float>& corrected, const std::vector<float>& decoded) const {
    for (size_t i = 0; i < corrected.size(); ++i) {
      // Without a residual, a lossy codec promises only the signs.
      const bool signs = residual_.empty() && !codec_.lossless();
      if (signs ? std::signbit(corrected[i]) != std::signbit(decoded[i])
                : corrected[i] - decoded[i] != (residual_.empty() ? 0 : residual_[i])) {
        return false;
      }
    }
    return true;
  }

  const Codec& codec_;
  const std::unique_ptr<Packer> packer_;
  const std::vector<float>& gradient_;
  std::vector<float> residual_;
  const size_t slice_;
  std::vector<SliceShape> shapes_;
  std::vector<std::unique_ptr<Encoder>> encoders_;
  std::vector<std::vector<std::byte>> payloads_;
  std::vector<PackingHabit> habits_;
  std::vector<PackedPayload> packed_;
  uint64_t step_ = 0;
};

std::vector<BenchRow> MeasureCodec(const Codec& codec, const LosslessConfig& lossless,
                                   const std::string& name, const std::string& backend,
                                   const std::vector<float>& gradient,
                                   const CodecBenchOptions& options) {
  Subject subject(codec, lossless, gradient, options.slice);
  const bool verified = subject.Verify();
  const double limit = MeasureMemcpy();
  const double bytes = static_cast<double>(gradient.size() * sizeof(float));
  std::vector<BenchRow> rows;
  const auto add = [&](const char* direction, auto work) {
    rows.push_back(MeasureCodecCase({absl::StrCat(name, "/", direction, "/", backend), bytes,
                                     subject.slices(), limit, verified},
                                    options.repeats, work,
                                    [&] { return subject.payload_bytes(); }));
  };
  add("encode", [&] { subject.Encode(); });
  std::vector<float> weights(gradient);
  add("decode", [&] { (void)subject.DecodeTo(-0.01f, weights); });
  return rows;
}

CodecConfig FactorsConfig() {
  CodecConfig config;
  config.mutable_factors();
  return config;
}

// Codecs that are also measured with the lossless stage behind them.
bool IsPacked(const CodecConfig& config, CodecBackend backend) {
  return backend == CodecBackend::kSimd &&
         (config.has_none() || config.has_fp16() || config.has_int8() || config.has_topk());
}

absl::StatusOr<std::vector<BenchRow>> RunDeviceBench(const CodecBenchOptions& options,
                                                     const std::vector<float>& gradient) {
  std::vector<BenchRow> rows;
  for (const CodecConfig& config : BenchedCodecs()) {
    PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<Codec> codec, MakeCodec(config));
    if (!Wanted(*codec, options.codecs)) continue;
    PSGD_ASSIGN_OR_RETURN(auto row, MeasureOnDevice(config, *codec, gradient, options));
    if (row) rows.push_back(*std::move(row));
  }
  return rows;
}

}  // namespace

absl::StatusOr<std::vector<BenchRow>> RunCodecBench(const CodecBenchOptions& options) {
  if (options.elements == 0 || options.slice == 0 || options.slice > (size_t{1} << 20)) {
    return absl::InvalidArgumentError(
        "the codec benchmark needs at least one element, in slices of 1 to 1048576");
  }
  PSGD_RETURN_IF_ERROR(CheckCodecNames(options.codecs));
  const std::vector<float> gradient = RandomGradient(options.elements);
  if (options.device != nullptr) return RunDeviceBench(options, gradient);
  std::vector<CodecBackend> backends = {CodecBackend::kSimd};
  if (options.scalar) backends.push_back(CodecBackend::kScalar);

  std::vector<BenchRow> rows;
  for (const CodecConfig& config : BenchedCodecs()) {
    for (CodecBackend backend : backends) {
      PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<Codec> codec, MakeCodec(config, {backend}));
      if (!Wanted(*codec, options.codecs)) continue;
      const char* twin = backend == CodecBackend::kSimd ? "simd" : "scalar";
      const std::string name = CaseName(*codec, config);
      const auto measure = [&](const LosslessConfig& lossless, const std::string& case_name) {
        auto measured = MeasureCodec(*codec, lossless, case_name, twin, gradient, options);
        std::ranges::move(measured, std::back_inserter(rows));
      };
      measure({}, name);
      if (!IsPacked(config, backend)) continue;
      LosslessConfig zstd;
      zstd.mutable_zstd();
      measure(zstd, name + "+zstd");
    }
  }
  PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<Codec> factors, MakeCodec(FactorsConfig()));
  if (!Wanted(*factors, options.codecs)) return rows;
  for (CodecBackend backend : backends) {
    std::ranges::move(RunFactorsBench(backend, options.repeats), std::back_inserter(rows));
  }
  return rows;
}

}  // namespace psgd
