#include "compression/twin_options.h"

#include "compression/coarse.h"
#include "compression/low_rank/powersgd_payload.h"
#include "compression/sparse/dgc.h"
#include "compression/sparse/topk.h"

namespace psgd {

std::optional<TwinOptions> MakeTwinOptions(const CodecConfig& config, const Codec& codec,
                                           const SliceShape& shape,
                                           const ErrorFeedbackOptions& feedback,
                                           const CodecOptions& options) {
  TwinOptions twin;
  twin.elements = shape.elements;
  twin.state_arrays = codec.state_arrays();
  twin.keeps_residual = feedback.accumulate && codec.keeps_residual();
  twin.residual_decay = feedback.decay;
  switch (config.kind_case()) {
    case CodecConfig::kNone:
      twin.codec = NoneTwin{};
      return twin;
    case CodecConfig::kFp16:
      twin.codec = HalfTwin{};
      return twin;
    case CodecConfig::kBf16:
      twin.codec = HalfTwin{.brain = true};
      return twin;
    case CodecConfig::kOnebit:
      twin.codec = OnebitTwin{static_cast<uint32_t>(config.onebit().block())};
      return twin;
    case CodecConfig::kSign:
      twin.codec = SignTwin{};
      return twin;
    case CodecConfig::kSignum:
      twin.codec = SignumTwin{static_cast<float>(config.signum().momentum())};
      return twin;
    case CodecConfig::kNatural:
      twin.codec = NaturalTwin{};
      return twin;
    case CodecConfig::kTernary:
      twin.codec = TernaryTwin{config.ternary().clip()};
      return twin;
    case CodecConfig::kInt8:
      twin.codec = QuantizedTwin{.block = static_cast<uint32_t>(config.int8().block()),
                                 .stochastic = config.int8().rounding() == Rounding::STOCHASTIC};
      return twin;
    case CodecConfig::kQsgd:
      twin.codec = QuantizedTwin{static_cast<uint32_t>(config.qsgd().block()),
                                 static_cast<uint32_t>(config.qsgd().bits()), true,
                                 config.qsgd().norm() == QsgdCodec::L2,
                                 config.qsgd().rounding() == Rounding::STOCHASTIC};
      return twin;
    case CodecConfig::kTopk:
      twin.codec = TopkTwin{config.topk().density(), config.topk().select() == TopkCodec::SAMPLED,
                            TopkValues(config.topk())};
      return twin;
    case CodecConfig::kThreshold:
      twin.codec = ThresholdTwin{RoundCoarse(static_cast<float>(config.threshold().tau()))};
      return twin;
    case CodecConfig::kDgc:
      twin.codec = DgcTwin{config.dgc().density(), static_cast<float>(config.dgc().momentum()),
                           DgcLimitOfSlice(DgcLimit(config.dgc(), options.workers), shape),
                           static_cast<uint64_t>(config.dgc().warmup().steps())};
      return twin;
    case CodecConfig::kRandomk:
      twin.codec = RandomkTwin{config.randomk().density()};
      return twin;
    case CodecConfig::kBlocks:
      twin.codec =
          BlocksTwin{config.blocks().density(), static_cast<uint32_t>(config.blocks().block())};
      return twin;
    case CodecConfig::kPowersgd: {
      const MatrixView view(shape);
      const auto rank = static_cast<uint32_t>(config.powersgd().rank());
      twin.codec =
          PowersgdTwin{LowRankPays(view, rank) ? rank : 0, view.rows, view.columns, view.first};
      return twin;
    }
    // Factors come from their layer, not from a gradient.
    case CodecConfig::kFactors:
    case CodecConfig::kAuto:
    case CodecConfig::KIND_NOT_SET:
      break;
  }
  return std::nullopt;
}

}  // namespace psgd
