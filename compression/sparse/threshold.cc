#include "compression/sparse/threshold.h"

#include <cmath>

#include "compression/coarse.h"
#include "compression/sparse/corrected_source.h"
#include "compression/sparse/sparse_codec.h"

namespace psgd {
namespace {

class ThresholdEncoder final : public Encoder {
 public:
  ThresholdEncoder(float tau, const CodecKernels& kernels)
      : tau_(tau), kernels_(kernels), selector_(kernels) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override {
    CorrectedSource source(input.gradient, input.residual, kernels_);
    selector_.SelectReaching(&source, MagnitudeBits(tau_));
    const auto indices = selector_.indices();
    const auto values = selector_.values();
    WriteSparse({indices, values, input.gradient.size()}, ValueCoding::kSign, tau_, kernels_, out);
    if (input.residual.empty()) return;
    for (size_t i = 0; i < indices.size(); ++i) input.residual[indices[i]] = values[i];
  }

 private:
  const float tau_;
  const CodecKernels& kernels_;
  LargestSelector selector_;
};

class Threshold final : public SparseCodec {
 public:
  Threshold(float tau, const CodecKernels& kernels)
      : SparseCodec(CODEC_THRESHOLD, "threshold", kernels), tau_(tau) {}
  std::optional<TwinCodec> Twin(const SliceShape&) const override { return ThresholdTwin{tau_}; }
  std::unique_ptr<Encoder> NewEncoder(const SliceShape&) const override {
    return std::make_unique<ThresholdEncoder>(tau_, kernels());
  }

 private:
  const float tau_;
};

}  // namespace

StatusOrCodec MakeThreshold(const ThresholdCodec& config, const CodecKernels& kernels) {
  const float tau = RoundCoarse(static_cast<float>(config.tau()));
  if (!(tau > 0) || !std::isfinite(config.tau()) || config.tau() > 1e30) {
    return InvalidArgumentError("threshold.tau is ", config.tau(),
                                "; it is the magnitude that is sent: above 0 and of the size of "
                                "large gradients, such as 0.001");
  }
  return std::make_unique<Threshold>(tau, kernels);
}

}  // namespace psgd
