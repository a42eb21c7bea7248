#include "compression/dense/half_codec.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compression/payload_bytes.h"

namespace psgd {
namespace {

constexpr size_t kHalfBytes = 2;

class HalfEncoder final : public Encoder {
 public:
  explicit HalfEncoder(const HalfKernels& kernels) : kernels_(kernels) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override {
    const size_t elements = input.gradient.size();
    Reserve(elements * kHalfBytes, out);
    for (size_t begin = 0; begin < elements; begin += kEncodeBlock) {
      const size_t count = std::min(kEncodeBlock, elements - begin);
      kernels_.encode(input.gradient.subspan(begin, count),
                      input.residual.empty() ? nullptr : input.residual.data() + begin,
                      Grow(count * kHalfBytes, out));
    }
  }

 private:
  const HalfKernels& kernels_;
};

class HalfReader final : public PayloadReader {
 public:
  HalfReader(ByteSpan payload, const HalfKernels& kernels)
      : PayloadReader(static_cast<uint32_t>(payload.size() / kHalfBytes)),
        kernels_(kernels),
        payload_(payload),
        next_(payload.data()) {}

  void AddBlock(float scale, std::span<float> block) override {
    kernels_.add(scale, next_, block);
    next_ += block.size() * kHalfBytes;
  }

  // In both formats, a larger magnitude has larger bits.
  float Largest() const override {
    int16_t largest = 0;
    for (size_t i = 0; i < elements(); ++i) {
      const auto bits = LoadField<int16_t>(payload_.data() + i * kHalfBytes);
      largest = std::max(largest, static_cast<int16_t>(bits & 0x7FFF));
    }
    float value = 0;
    kernels_.add(1, reinterpret_cast<const std::byte*>(&largest), {&value, 1});
    return value;
  }

 private:
  const HalfKernels& kernels_;
  const ByteSpan payload_;
  const std::byte* next_;
};

class HalfCodec final : public Codec {
 public:
  HalfCodec(CodecId id, absl::string_view name, const HalfKernels& kernels)
      : id_(id), name_(name), kernels_(kernels) {}

  CodecId id() const override { return id_; }
  absl::string_view name() const override { return name_; }
  bool lossless() const override { return false; }
  std::unique_ptr<Encoder> NewEncoder(const SliceShape&) const override {
    return std::make_unique<HalfEncoder>(kernels_);
  }
  absl::StatusOr<std::unique_ptr<PayloadReader>> Open(ByteSpan payload,
                                                      const SliceShape& shape) const override {
    return OpenHalves(payload, shape.elements, name_, kernels_);
  }
  size_t MaxPayload(uint32_t elements) const override { return elements * kHalfBytes; }

 private:
  const CodecId id_;
  const absl::string_view name_;
  const HalfKernels& kernels_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PayloadReader>> OpenHalves(ByteSpan halves, uint32_t elements,
                                                          absl::string_view name,
                                                          const HalfKernels& kernels) {
  if (halves.size() != size_t{elements} * kHalfBytes) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(name), " payload of ", halves.size(),
                                                   " bytes for ", elements,
                                                   " elements: 2 bytes each expected"));
  }
  if (!kernels.all_finite(halves.data(), elements)) {
    return absl::OutOfRangeError(absl::StrCat(std::string(name), " payload holds NaN or infinity"));
  }
  return std::make_unique<HalfReader>(halves, kernels);
}

std::unique_ptr<Codec> MakeHalfCodec(CodecId id, absl::string_view name,
                                     const HalfKernels& kernels) {
  return std::make_unique<HalfCodec>(id, name, kernels);
}

}  // namespace psgd
