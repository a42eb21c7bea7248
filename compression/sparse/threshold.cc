#include "compression/sparse/threshold.h"

#include <cmath>

#include "compression/coarse.h"
#include "compression/sparse/corrected_source.h"
#include "compression/sparse/sparse_codec.h"
#include "compression/twinned_codec.h"

namespace psgd {
namespace {

class ThresholdEncoder final : public Encoder {
 public:
  ThresholdEncoder(const ThresholdTwin& options, const CodecKernels& kernels)
      : tau_(options.tau), kernels_(kernels), selector_(kernels) {}

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

}  // namespace

StatusOrCodec MakeThreshold(const ThresholdCodec& config, const CodecKernels& kernels) {
  const float tau = RoundCoarse(static_cast<float>(config.tau()));
  if (!(tau > 0) || !std::isfinite(config.tau()) || config.tau() > 1e30) {
    return InvalidArgumentError("threshold.tau is ", config.tau(),
                                "; it is the magnitude that is sent: above 0 and of the size of "
                                "large gradients, such as 0.001");
  }
  using Threshold = TwinnedCodec<ThresholdTwin, ThresholdEncoder, SparseCodec>;
  return std::make_unique<Threshold>(CODEC_THRESHOLD, "threshold", ThresholdTwin{tau}, kernels);
}

}  // namespace psgd
