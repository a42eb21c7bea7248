#include "compression/sparse/topk.h"

#include "compression/codec_checks.h"
#include "compression/sparse/corrected_source.h"
#include "compression/sparse/density_count.h"
#include "compression/sparse/sparse_codec.h"
#include "compression/twinned_codec.h"

namespace psgd {
namespace {

class TopkEncoder final : public Encoder {
 public:
  TopkEncoder(const TopkTwin& options, const CodecKernels& kernels)
      : options_(options), kernels_(kernels), selector_(kernels) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override {
    const size_t elements = input.gradient.size();
    const size_t keep =
        WorthSending(CountAt(options_.density, elements), elements, options_.values);
    CorrectedSource source(input.gradient, input.residual, kernels_);
    selector_.Select(&source, keep, options_.sampled ? Selection::kSampled : Selection::kExact);
    const auto indices = selector_.indices();
    const auto values = selector_.values();
    WriteSparse({indices, values, elements}, options_.values, -1, kernels_, out);
    if (input.residual.empty()) return;
    for (size_t i = 0; i < indices.size(); ++i) input.residual[indices[i]] = values[i];
  }

 private:
  const TopkTwin options_;
  const CodecKernels& kernels_;
  LargestSelector selector_;
};

ValueCoding ValuesOf(const TopkCodec& config) {
  switch (config.values()) {
    case TopkCodec::FP32:
      break;
    case TopkCodec::FP16:
      return ValueCoding::kHalf;
    case TopkCodec::TERNARY:
      return ValueCoding::kSign;
  }
  return ValueCoding::kFloat;
}

}  // namespace

StatusOrCodec MakeTopk(const TopkCodec& config, const CodecKernels& kernels) {
  PSGD_RETURN_IF_ERROR(CheckDensity("topk", config.density()));
  const TopkTwin options = {config.density(), config.select() == TopkCodec::SAMPLED,
                            ValuesOf(config)};
  using Topk = TwinnedCodec<TopkTwin, TopkEncoder, SparseCodec>;
  return std::make_unique<Topk>(CODEC_TOPK, "topk", options, kernels);
}

}  // namespace psgd
