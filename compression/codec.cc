#include "compression/codec.h"

#include <algorithm>

#include "compression/dense/bf16.h"
#include "compression/dense/fp16.h"
#include "compression/dense/int8.h"
#include "compression/dense/natural.h"
#include "compression/dense/none.h"
#include "compression/dense/onebit.h"
#include "compression/dense/qsgd.h"
#include "compression/dense/sign.h"
#include "compression/dense/signum.h"
#include "compression/dense/ternary.h"
#include "compression/kernels.h"
#include "compression/low_rank/factors.h"
#include "compression/low_rank/powersgd.h"
#include "compression/sparse/blocks.h"
#include "compression/sparse/chunked.h"
#include "compression/sparse/dgc.h"
#include "compression/sparse/randomk.h"
#include "compression/sparse/threshold.h"
#include "compression/sparse/topk.h"

namespace psgd {

StatusOrCodec MakeCodec(const CodecConfig& config, const CodecOptions& options) {
  const CodecKernels& kernels = KernelsFor(options.backend);
  switch (config.kind_case()) {
    case CodecConfig::kNone:
    case CodecConfig::KIND_NOT_SET:
      return MakeNone(kernels);
    case CodecConfig::kFp16:
      return MakeFp16(kernels);
    case CodecConfig::kTopk:
      return MakeTopk(config.topk(), kernels);
    case CodecConfig::kOnebit:
      return MakeOnebit(config.onebit(), kernels);
    case CodecConfig::kTernary:
      return MakeTernary(config.ternary(), kernels);
    case CodecConfig::kBf16:
      return MakeBf16(kernels);
    case CodecConfig::kInt8:
      return MakeInt8(config.int8(), kernels);
    case CodecConfig::kQsgd:
      return MakeQsgd(config.qsgd(), kernels);
    case CodecConfig::kNatural:
      return MakeNatural(kernels);
    case CodecConfig::kSign:
      return MakeSign(kernels);
    case CodecConfig::kSignum:
      return MakeSignum(config.signum(), kernels);
    case CodecConfig::kRandomk:
      return MakeRandomk(config.randomk(), kernels);
    case CodecConfig::kThreshold:
      return MakeThreshold(config.threshold(), kernels);
    case CodecConfig::kBlocks:
      return MakeBlocks(config.blocks(), kernels);
    case CodecConfig::kDgc:
      return MakeDgc(config.dgc(), options.workers, kernels);
    case CodecConfig::kPowersgd:
      return MakePowersgd(config.powersgd(), kernels);
    case CodecConfig::kAuto:
      return absl::InvalidArgumentError("auto is a choice among codecs, and none itself");
    case CodecConfig::kFactors:
      return MakeFactors(kernels);
    case CodecConfig::kChunked:
      return MakeChunked(config.chunked(), kernels);
  }
  return absl::InvalidArgumentError("compression names a codec that this program does not have");
}

StatusOrReaders Codec::OpenShared(ByteSpan payload, std::span<const SliceShape> shapes) const {
  if (shapes.size() != 1) {
    return InvalidArgumentError(name(), " payload for ", shapes.size(), " slices together");
  }
  PSGD_ASSIGN_OR_RETURN(auto reader, Open(payload, shapes[0]));
  std::vector<std::unique_ptr<PayloadReader>> readers;
  readers.push_back(std::move(reader));
  return readers;
}

size_t Codec::MaxSharedPayload(std::span<const SliceShape> shapes) const {
  uint64_t elements = 0;
  for (const SliceShape& shape : shapes) elements += shape.elements;
  return MaxPayload(static_cast<uint32_t>(std::min<uint64_t>(elements, UINT32_MAX)));
}

std::vector<CodecConfig> DefaultCodecs() {
  std::vector<CodecConfig> configs;
  const auto& kinds = *CodecConfig::descriptor()->FindOneofByName("kind");
  for (int i = 0; i < kinds.field_count(); ++i) {
    if (kinds.field(i)->number() == CodecConfig::kAutoFieldNumber) continue;
    CodecConfig& config = configs.emplace_back();
    config.GetReflection()->MutableMessage(&config, kinds.field(i));
  }
  return configs;
}

CodecTable::CodecTable(const CodecOptions& options) {
  codecs_.resize(CodecId_ARRAYSIZE);
  for (const CodecConfig& config : DefaultCodecs()) {
    auto codec = MakeCodec(config, options).value();  // the schema's defaults are valid
    codecs_[codec->id()] = std::move(codec);
  }
}

const Codec* CodecTable::Find(CodecId id) const {
  const size_t index = static_cast<size_t>(id);
  return index < codecs_.size() ? codecs_[index].get() : nullptr;
}

}  // namespace psgd
