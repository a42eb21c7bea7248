#include "compression/low_rank/factor_updates.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "compression/low_rank/factors_payload.h"
#include "compression/payload_bytes.h"

namespace psgd {
namespace {

constexpr size_t kCountBytes = 4, kUpdateBytes = 12, kPartBytes = 8;
// Limits of one update's unpacked factors: hostile bytes may name more than there is memory.
// Factors that pay are far shorter than the weights, so those of hundreds of workers fit.
constexpr uint64_t kMostTimesTheWeights = 64;
constexpr uint64_t kMostFloats = uint64_t{256} << 20;  // 1 GiB
constexpr size_t kBlock = 2048;  // floats; with the weights in the first-level cache

// Reads fields from front to back.
class Fields {
 public:
  explicit Fields(ByteSpan bytes) : rest_(bytes) {}

  template <typename T>
  absl::StatusOr<T> Next() {
    PSGD_ASSIGN_OR_RETURN(const ByteSpan bytes, Take(sizeof(T)));
    return LoadField<T>(bytes.data());
  }
  absl::StatusOr<float> NextFinite() {
    PSGD_ASSIGN_OR_RETURN(const float value, Next<float>());
    if (!std::isfinite(value)) return absl::OutOfRangeError("updates hold NaN or infinity");
    return value;
  }
  absl::StatusOr<ByteSpan> Take(size_t count) {
    if (count > rest_.size()) return absl::InvalidArgumentError("updates end too early");
    const ByteSpan taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  bool empty() const { return rest_.empty(); }

 private:
  ByteSpan rest_;
};

bool IsOwn(const FactorUpdate::Part& part, const UpdateReader& reader) {
  return part.worker == reader.worker && part.incarnation == reader.incarnation;
}

// One update, opened for every slice.
struct Opened {
  struct Part {
    float scale = 1;
    Bytes own;                                            // payload, kept for its readers
    std::vector<std::unique_ptr<PayloadReader>> readers;  // by slice
  };
  float rate = 0;
  float decay = 0;
  std::vector<Part> parts;
};

absl::StatusOr<Opened> OpenUpdate(const Codec& factors, const OwnFactors& own,
                                  std::span<const SliceShape> shapes, Fields* fields) {
  Opened update;
  PSGD_ASSIGN_OR_RETURN(update.rate, fields->NextFinite());
  PSGD_ASSIGN_OR_RETURN(update.decay, fields->NextFinite());
  PSGD_ASSIGN_OR_RETURN(const uint32_t parts, fields->Next<uint32_t>());
  if (parts == 0) return absl::InvalidArgumentError("an update of no contributions");
  uint64_t floats = 0, most = 0;
  for (const SliceShape& shape : shapes) most += kMostTimesTheWeights * shape.elements;
  most = std::min(most, kMostFloats);
  for (uint32_t i = 0; i < parts; ++i) {
    Opened::Part& part = update.parts.emplace_back();
    PSGD_ASSIGN_OR_RETURN(part.scale, fields->NextFinite());
    PSGD_ASSIGN_OR_RETURN(const uint32_t bytes, fields->Next<uint32_t>());
    ByteSpan payload;
    if (bytes > 0) {
      PSGD_ASSIGN_OR_RETURN(payload, fields->Take(bytes));
    } else {
      PSGD_ASSIGN_OR_RETURN(const uint64_t clock, fields->Next<uint64_t>());
      part.own = own(clock);
      payload = part.own.span();
      if (payload.empty()) {
        return InvalidArgumentError("updates with a push of clock ", clock,
                                    " that this worker does not have");
      }
    }
    floats += FactorFloats(payload, shapes);
    if (floats > most) {
      return absl::ResourceExhaustedError("an update whose factors are more than a worker holds");
    }
    PSGD_ASSIGN_OR_RETURN(part.readers, factors.OpenShared(payload, shapes));
  }
  return update;
}

// Repeats the arithmetic of server/shard/slice_state.cc and optimizers/kernels.cc.
void Apply(const Opened& update, size_t slice, std::span<float> weights) {
  float block[kBlock];
  for (size_t begin = 0; begin < weights.size(); begin += kBlock) {
    const size_t size = std::min(kBlock, weights.size() - begin);
    std::fill_n(block, size, 0.0f);
    for (const Opened::Part& part : update.parts) {
      part.readers[slice]->AddBlock(part.scale, {block, size});
    }
    float* const w = weights.data() + begin;
    if (update.decay != 0) {
      for (size_t i = 0; i < size; ++i) block[i] += update.decay * w[i];
    }
    for (size_t i = 0; i < size; ++i) w[i] -= update.rate * block[i];
  }
}

}  // namespace

size_t UpdateBytes(std::span<const FactorUpdate> updates, const UpdateReader& reader) {
  size_t bytes = kCountBytes;
  for (const FactorUpdate& update : updates) {
    bytes += kUpdateBytes;
    for (const FactorUpdate::Part& part : update.parts) {
      bytes += kPartBytes + (IsOwn(part, reader) ? sizeof(part.clock) : part.payload.size());
    }
  }
  return bytes;
}

std::vector<std::byte> WriteFactorUpdates(std::span<const FactorUpdate> updates,
                                          const UpdateReader& reader) {
  std::vector<std::byte> out;
  Reserve(UpdateBytes(updates, reader), &out);
  const auto append = [&](const auto& field) { StoreField(field, Grow(sizeof(field), &out)); };
  append(static_cast<uint32_t>(updates.size()));
  for (const FactorUpdate& update : updates) {
    append(update.rate);
    append(update.decay);
    append(static_cast<uint32_t>(update.parts.size()));
    for (const FactorUpdate::Part& part : update.parts) {
      append(part.scale);
      if (IsOwn(part, reader)) {
        append(uint32_t{0});
        append(part.clock);
        continue;
      }
      append(static_cast<uint32_t>(part.payload.size()));
      const ByteSpan payload = part.payload.span();
      out.insert(out.end(), payload.begin(), payload.end());
    }
  }
  return out;
}

absl::Status ApplyFactorUpdates(const Codec& factors, ByteSpan payload, const OwnFactors& own,
                                std::span<const SliceShape> shapes,
                                std::span<const std::span<float>> weights) {
  // Two passes: all updates are checked before the first is applied, but only one is in memory.
  for (const bool apply : {false, true}) {
    Fields fields(payload);
    PSGD_ASSIGN_OR_RETURN(const uint32_t count, fields.Next<uint32_t>());
    if (count == 0) return absl::InvalidArgumentError("no updates where there should be some");
    for (uint32_t i = 0; i < count; ++i) {
      PSGD_ASSIGN_OR_RETURN(const Opened update, OpenUpdate(factors, own, shapes, &fields));
      for (size_t slice = 0; apply && slice < shapes.size(); ++slice) {
        Apply(update, slice, weights[slice]);
      }
    }
    if (!fields.empty()) return absl::InvalidArgumentError("updates have bytes beyond their last");
  }
  return absl::OkStatus();
}

}  // namespace psgd
