#include "compression/codec.h"

#include "compression/fp16.h"
#include "compression/kernels.h"
#include "compression/none.h"
#include "compression/onebit.h"
#include "compression/ternary.h"
#include "compression/topk.h"

namespace psgd {

absl::StatusOr<std::unique_ptr<Codec>> MakeCodec(const CodecConfig& config,
                                                 const CodecOptions& options) {
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
  }
  return absl::InvalidArgumentError("compression names a codec that this program does not have");
}

CodecTable::CodecTable(const CodecOptions& options) {
  const CodecKernels& kernels = KernelsFor(options.backend);
  codecs_.resize(CodecId_ARRAYSIZE);
  const auto add = [this](std::unique_ptr<Codec> codec) {
    codecs_[codec->id()] = std::move(codec);
  };
  // The schema's defaults are valid.
  add(MakeNone(kernels));
  add(MakeFp16(kernels));
  add(MakeTopk(TopkCodec(), kernels).value());
  add(MakeOnebit(OnebitCodec(), kernels).value());
  add(MakeTernary(TernaryCodec(), kernels).value());
}

const Codec* CodecTable::Find(CodecId id) const {
  const size_t index = static_cast<size_t>(id);
  return index < codecs_.size() ? codecs_[index].get() : nullptr;
}

}  // namespace psgd
