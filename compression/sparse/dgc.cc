#include "compression/sparse/dgc.h"

#include <algorithm>
#include <cmath>

#include "compression/codec_checks.h"
#include "compression/lanes.h"
#include "compression/sparse/density_count.h"
#include "compression/sparse/dgc_schedule.h"
#include "compression/sparse/select_largest.h"
#include "compression/sparse/sparse_codec.h"

namespace psgd {
namespace {

// The numbers v + (momentum * u + scale * gradient). Make and Gather also update u.
class VelocitySource final : public SelectSource {
 public:
  // If v is empty, numbers are picked from u.
  VelocitySource(std::span<const float> gradient, float scale, float momentum, std::span<float> u,
                 std::span<float> v, const CodecKernels& kernels)
      : gradient_(gradient), scale_(scale), momentum_(momentum), u_(u), v_(v), kernels_(kernels) {}

  size_t size() const override { return gradient_.size(); }

  void Sample(size_t begin, float* run) const override {
    for (size_t i = begin; i < begin + kSampleRun; ++i) {
      const float moved = momentum_ * u_[i] + scale_ * gradient_[i];
      run[i - begin] = v_.empty() ? moved : v_[i] + moved;
    }
  }

  void Make(size_t begin, size_t count) override {
    kernels_.momentum.accumulate(gradient_.subspan(begin, count), scale_, momentum_,
                                 u_.data() + begin, v_.empty() ? nullptr : v_.data() + begin);
  }

  size_t Gather(size_t begin, size_t count, uint32_t least, uint32_t* indices,
                float* values) override {
    Make(begin, count);
    return kernels_.topk.gather(Made().subspan(begin, count), nullptr, least,
                                static_cast<uint32_t>(begin), indices, values);
  }

  std::span<const float> Made() const override { return v_.empty() ? u_ : v_; }

 private:
  const std::span<const float> gradient_;
  const float scale_;
  const float momentum_;
  const std::span<float> u_;
  const std::span<float> v_;
  const CodecKernels& kernels_;
};

class DgcEncoder final : public Encoder {
 public:
  DgcEncoder(const DgcTwin& options, uint32_t elements, const CodecKernels& kernels)
      : options_(options), kernels_(kernels), selector_(kernels), velocity_(elements) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override {
    const size_t elements = input.gradient.size();
    const size_t keep =
        WorthSending(CountAt(DensityAt(input.step), elements), elements, ValueCoding::kFloat);
    VelocitySource source(input.gradient, ScaleOf(input.gradient), options_.momentum, velocity_,
                          input.residual, kernels_);
    selector_.Select(&source, keep, Selection::kSampled);
    const auto indices = selector_.indices();
    WriteSparse({indices, selector_.values(), elements}, ValueCoding::kFloat, -1, kernels_, out);
    if (keep < elements) {
      for (uint32_t index : indices) velocity_[index] = 0;
    }
    if (input.residual.empty()) return;
    for (uint32_t index : indices) input.residual[index] = 0;
  }

  void SaveState(std::span<float> arrays) const override {
    std::ranges::copy(velocity_, arrays.begin());
  }
  void LoadState(std::span<const float> arrays) override {
    std::ranges::copy(arrays, velocity_.begin());
  }

 private:
  double DensityAt(uint64_t step) const {
    return WarmUpDensity(options_.density, step, options_.warmup);
  }

  float ScaleOf(std::span<const float> gradient) const {
    if (options_.limit == 0) return 1;
    double squares = 0;
    for (size_t begin = 0; begin < gradient.size(); begin += kSumStretch) {  // see lanes.h
      squares += kernels_.dense.sum_squares(
          gradient.subspan(begin, std::min(kSumStretch, gradient.size() - begin)));
    }
    return ClippingScale(squares, options_.limit);
  }

  const DgcTwin options_;
  const CodecKernels& kernels_;
  LargestSelector selector_;
  std::vector<float> velocity_;
};

class Dgc final : public SparseCodec {
 public:
  // `options`: those of a slice that is a whole tensor.
  Dgc(const DgcTwin& options, const CodecKernels& kernels)
      : SparseCodec(CODEC_DGC, "dgc", kernels), options_(options) {}

  size_t state_arrays() const override { return 1; }
  uint32_t memory() const override { return CODEC_DGC; }
  std::optional<TwinCodec> Twin(const SliceShape& shape) const override {
    return OptionsFor(shape);
  }
  std::unique_ptr<Encoder> NewEncoder(const SliceShape& shape) const override {
    return std::make_unique<DgcEncoder>(OptionsFor(shape), shape.elements, kernels());
  }

 private:
  DgcTwin OptionsFor(const SliceShape& shape) const {
    DgcTwin options = options_;
    const double tensor =
        static_cast<double>(shape.tensor_rows) * static_cast<double>(shape.tensor_columns);
    // A slice of an unknown tensor counts as a whole tensor.
    if (tensor != 0) options.limit *= std::sqrt(shape.elements / tensor);
    return options;
  }

  const DgcTwin options_;
};

}  // namespace

StatusOrCodec MakeDgc(const DgcCodec& config, uint32_t workers, const CodecKernels& kernels) {
  PSGD_RETURN_IF_ERROR(CheckDensity("dgc", config.density()));
  if (!(config.momentum() >= 0 && config.momentum() < 1)) {
    return InvalidArgumentError("dgc.momentum is ", config.momentum(),
                                "; it is at least 0 and below 1, such as 0.9");
  }
  if (!(config.clip() >= 0) || !std::isfinite(config.clip()) || config.warmup().steps() < 0) {
    return absl::InvalidArgumentError("dgc.clip and dgc.warmup are at least 0");
  }
  const double limit = config.clip() / std::sqrt(static_cast<double>(std::max(1u, workers)));
  const DgcTwin options = {config.density(), static_cast<float>(config.momentum()), limit,
                           static_cast<uint64_t>(config.warmup().steps())};
  return std::make_unique<Dgc>(options, kernels);
}

}  // namespace psgd
