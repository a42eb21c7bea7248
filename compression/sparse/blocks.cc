#include "compression/sparse/blocks.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "compression/payload_bytes.h"
#include "compression/sparse/block_norm.h"
#include "compression/sparse/blocks_reader.h"
#include "compression/sparse/density.h"
#include "compression/sparse/rice.h"
#include "compression/sparse/select.h"

namespace psgd {
namespace {

struct BlocksOptions {
  double density = 0;
  uint32_t block = 0;
};

class BlocksEncoder final : public Encoder {
 public:
  BlocksEncoder(const BlocksOptions& options, const CodecKernels& kernels)
      : options_(options), kernels_(kernels) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override {
    const size_t elements = input.gradient.size();
    const bool keep = !input.residual.empty();
    Measure(input);
    Choose();
    const std::span<const float> corrected = keep ? input.residual : input.gradient;
    size_t sent = 0;
    for (uint32_t b : chosen_) sent += BlockAt(b, elements);
    const RiceShape shape = ChooseRice(chosen_);
    const size_t bytes = kBlocksHeaderBytes + sent * sizeof(float) + (shape.total_bits + 7) / 8;
    std::byte* payload = Grow(bytes, out);
    StoreField(static_cast<uint32_t>(chosen_.size()), payload);
    StoreField(shape.low_bits, payload + 4);
    StoreField(options_.block, payload + 8);
    StoreField(static_cast<uint32_t>(sent), payload + 12);
    payload += kBlocksHeaderBytes;
    for (uint32_t b : chosen_) {
      const size_t begin = size_t{b} * options_.block, count = BlockAt(b, elements);
      std::memcpy(payload, &corrected[begin], count * sizeof(float));
      payload += count * sizeof(float);
      if (keep) std::fill_n(&input.residual[begin], count, 0.0f);
    }
    WriteRice(chosen_, shape, payload);
  }

 private:
  // Number of elements in block `index`.
  size_t BlockAt(size_t index, size_t elements) const {
    return std::min<size_t>(options_.block, elements - index * options_.block);
  }

  // Leaves gradient + residual in the residual, if there is one, and the blocks' norms in norms_.
  void Measure(const EncodeInput& input) {
    const size_t elements = input.gradient.size();
    norms_.clear();
    for (size_t begin = 0; begin < elements; begin += options_.block) {
      const size_t count = std::min<size_t>(options_.block, elements - begin);
      std::span<const float> part = input.gradient.subspan(begin, count);
      if (!input.residual.empty()) {
        kernels_.dense.add(part, input.residual.subspan(begin, count));
        part = input.residual.subspan(begin, count);
      }
      norms_.push_back(NormOfBlock(kernels_.dense.sum_squares(part)));
    }
  }

  void Choose() {
    chosen_.clear();
    if (norms_.empty()) return;
    Cut cut = FindCut(norms_, CountAt(options_.density, norms_.size()), &scratch_);
    for (uint32_t b = 0; b < norms_.size(); ++b) {
      const uint32_t bits = MagnitudeBits(norms_[b]);
      const bool tie = bits == cut.least && cut.ties > 0;
      cut.ties -= tie;
      if ((tie || bits > cut.least) && bits > 0) chosen_.push_back(b);
    }
  }

  const BlocksOptions options_;
  const CodecKernels& kernels_;
  std::vector<float> norms_;
  // Buffers, kept from step to step only to spare allocations.
  std::vector<uint32_t> chosen_;
  std::vector<uint32_t> scratch_;
};

class Blocks final : public Codec {
 public:
  Blocks(const BlocksOptions& options, const CodecKernels& kernels)
      : options_(options), kernels_(kernels) {}

  CodecId id() const override { return CODEC_BLOCKS; }
  absl::string_view name() const override { return "blocks"; }
  bool lossless() const override { return false; }
  std::unique_ptr<Encoder> NewEncoder(const SliceShape&) const override {
    return std::make_unique<BlocksEncoder>(options_, kernels_);
  }
  absl::StatusOr<std::unique_ptr<PayloadReader>> Open(ByteSpan payload,
                                                      const SliceShape& shape) const override {
    return OpenBlocks(payload, shape.elements, kernels_);
  }
  // Rice codes take less than 2 bits for each block, and there are at most n blocks.
  size_t MaxPayload(uint32_t elements) const override {
    return kBlocksHeaderBytes + size_t{elements} * sizeof(float) + (size_t{elements} + 3) / 4;
  }

 private:
  const BlocksOptions options_;
  const CodecKernels& kernels_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Codec>> MakeBlocks(const BlocksCodec& config,
                                                  const CodecKernels& kernels) {
  PSGD_RETURN_IF_ERROR(CheckDensity("blocks", config.density()));
  if (config.block() < 1 || config.block() > kLargestSparseBlock) {
    return absl::InvalidArgumentError(absl::StrCat("blocks.block is ", config.block(),
                                                   "; it is 1 to 1048576 elements, such as 256"));
  }
  BlocksOptions options;
  options.density = config.density();
  options.block = static_cast<uint32_t>(config.block());
  return std::make_unique<Blocks>(options, kernels);
}

}  // namespace psgd
