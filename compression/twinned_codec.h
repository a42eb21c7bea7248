// Codecs whose encoders and whose twins on a device need the same options, and nothing of the
// slice.
#pragma once

#include <memory>
#include <optional>

#include "compression/codec.h"

namespace psgd {

// `Options`: one of TwinCodec. `Base`: Codec, or a class between.
template <typename Options, typename OwnEncoder, typename Base = Codec>
class TwinnedCodec : public Base {
 public:
  // REQUIRES: as Codec.
  TwinnedCodec(CodecId id, absl::string_view name, const Options& options,
               const CodecKernels& kernels)
      : Base(id, name, kernels), options_(options) {}

  std::optional<TwinCodec> Twin(const SliceShape&) const override { return options_; }
  std::unique_ptr<Encoder> NewEncoder(const SliceShape&) const override {
    return std::make_unique<OwnEncoder>(options_, this->kernels());
  }

 protected:
  const Options& options() const { return options_; }

 private:
  const Options options_;
};

}  // namespace psgd
