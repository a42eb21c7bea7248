#include "compression/lossless.h"

#include <zstd.h>

#include <algorithm>
#include <utility>

#include "compression/payload_bytes.h"

namespace psgd {
namespace {

constexpr uint32_t kPlaneCounts[] = {1, 2, 4};
// In shorter payloads, a frame's own fields are a large part.
constexpr size_t kShortestPacked = 256;
// A saving of less than one byte in this many is not worth the time.
constexpr size_t kLeastGain = 32;

// Works word by word, so that the compiler uses vectors.
template <typename Word>
void Split(ByteSpan payload, std::byte* out) {
  const size_t words = payload.size() / sizeof(Word);
  for (size_t plane = 0; plane < sizeof(Word); ++plane) {
    std::byte* const own = out + plane * words;
    for (size_t i = 0; i < words; ++i) {
      own[i] =
          static_cast<std::byte>(LoadField<Word>(payload.data() + i * sizeof(Word)) >> (8 * plane));
    }
  }
  const size_t whole = words * sizeof(Word);
  std::copy(payload.begin() + static_cast<std::ptrdiff_t>(whole), payload.end(), out + whole);
}

template <typename Word>
void Join(const std::byte* planes, size_t size, std::byte* out) {
  const size_t words = size / sizeof(Word);
  for (size_t i = 0; i < words; ++i) {
    Word word = 0;
    for (size_t plane = 0; plane < sizeof(Word); ++plane) {
      word = static_cast<Word>(word | static_cast<Word>(planes[plane * words + i]) << (8 * plane));
    }
    StoreField(word, out + i * sizeof(Word));
  }
  const size_t whole = words * sizeof(Word);
  std::copy(planes + whole, planes + size, out + whole);
}

// Returns the size of the content of one whole frame.
absl::StatusOr<size_t> ContentOf(ByteSpan frame, size_t most) {
  // The magic number is checked first: psgd sends no older formats and no skippable frames.
  if (frame.size() < sizeof(uint32_t) || LoadField<uint32_t>(frame.data()) != ZSTD_MAGICNUMBER) {
    return absl::InvalidArgumentError("packed payload is no zstd frame");
  }
  const unsigned long long content = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (content == ZSTD_CONTENTSIZE_ERROR || content == ZSTD_CONTENTSIZE_UNKNOWN) {
    return absl::InvalidArgumentError("packed payload does not say how long it was");
  }
  if (content > most || content <= frame.size()) {
    return InvalidArgumentError("packed payload of ", frame.size(), " bytes was ", content,
                                " long, where ", most, " is the most, and packing makes shorter");
  }
  if (ZSTD_findFrameCompressedSize(frame.data(), frame.size()) != frame.size()) {
    return absl::InvalidArgumentError("packed payload is not one whole zstd frame");
  }
  return static_cast<size_t>(content);
}

}  // namespace

std::unique_ptr<Packer> Packer::Make(const LosslessConfig& config) {
  if (!config.has_zstd()) return nullptr;
  return std::unique_ptr<Packer>(new Packer(config.zstd().level()));
}

Packer::Packer(int level) : context_(ZSTD_createCCtx()) {
  ZSTD_CCtx_setParameter(context_, ZSTD_c_compressionLevel, level);
}

Packer::~Packer() { ZSTD_freeCCtx(context_); }

PackedPayload Packer::Pack(ByteSpan payload, PackingHabit* habit) {
  if (payload.size() < kShortestPacked) return {};
  PackedPayload best;
  if (habit->GoesOn(payload.size())) {
    --habit->left_;
    if (habit->planes_ > 0) best = PackIn(habit->planes_, payload);
  } else {
    habit->left_ = PackingHabit::kRound - 1;
    habit->tried_bytes_ = payload.size();
    for (const uint32_t planes : kPlaneCounts) {
      PackedPayload packed = PackIn(planes, payload);
      if (packed.planes == 0) continue;
      if (best.planes == 0 || packed.frame.size() < best.frame.size()) best = std::move(packed);
    }
  }
  habit->planes_ = best.planes;
  return best;
}

PackedPayload Packer::PackIn(uint32_t planes, ByteSpan payload) {
  if (payload.empty()) return {};
  ByteSpan source = payload;
  if (planes > 1) {
    planes_.resize(std::max(planes_.size(), payload.size()));
    if (planes == 2) {
      Split<uint16_t>(payload, planes_.data());
    } else {
      Split<uint32_t>(payload, planes_.data());
    }
    source = ByteSpan(planes_).first(payload.size());
  }
  const size_t most = payload.size() - payload.size() / kLeastGain - 1;
  frame_.resize(std::max(frame_.size(), most));
  // An error means that the frame does not fit in `most` bytes.
  const size_t size = ZSTD_compress2(context_, frame_.data(), most, source.data(), source.size());
  if (ZSTD_isError(size)) return {};
  return {planes, Bytes::CopyOf(ByteSpan(frame_).first(size))};
}

absl::StatusOr<Bytes> Unpack(const Bytes& came, uint32_t planes, size_t most) {
  if (planes == 0) return came;
  if (!std::ranges::count(kPlaneCounts, planes)) {
    return InvalidArgumentError("packed payload in ", planes, " planes");
  }
  PSGD_ASSIGN_OR_RETURN(const size_t size, ContentOf(came.span(), most));
  auto content = std::make_unique_for_overwrite<std::byte[]>(size);
  const size_t unpacked = ZSTD_decompress(content.get(), size, came.data(), came.size());
  if (unpacked != size) {
    return InvalidArgumentError("packed payload is damaged", ZSTD_isError(unpacked) ? ": " : "",
                                ZSTD_isError(unpacked) ? ZSTD_getErrorName(unpacked) : "");
  }
  if (planes > 1) {
    auto payload = std::make_unique_for_overwrite<std::byte[]>(size);
    if (planes == 2) {
      Join<uint16_t>(content.get(), size, payload.get());
    } else {
      Join<uint32_t>(content.get(), size, payload.get());
    }
    content = std::move(payload);
  }
  const ByteSpan payload(content.get(), size);
  return Bytes(std::shared_ptr<std::byte[]>(std::move(content)), payload);
}

}  // namespace psgd
