#include "compression/sparse/sparse_payload.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compression/coarse.h"
#include "compression/codec_checks.h"
#include "compression/dense/half.h"
#include "compression/dense/sign_bits.h"
#include "compression/lanes.h"
#include "compression/payload_bytes.h"
#include "compression/sparse/entry_reader.h"

namespace psgd {
namespace {

// Not finite if the values are not, so that a shard refuses what the caller let through.
float MeanMagnitude(std::span<const float> values) {
  double sum = 0;
  for (size_t begin = 0; begin < values.size(); begin += kSumStretch) {
    Lanes<double> lanes;
    const auto stretch = values.subspan(begin, std::min(kSumStretch, values.size() - begin));
    for (size_t i = 0; i < stretch.size(); ++i) lanes.value[i % kLanes] += std::fabs(stretch[i]);
    sum += lanes.Sum();
  }
  return CoarseMean(sum, values.size());
}

void WriteValues(std::span<float> values, ValueCoding coding, float magnitude,
                 const CodecKernels& kernels, std::byte* out) {
  switch (coding) {
    case ValueCoding::kFloat:
      if (!values.empty()) std::memcpy(out, values.data(), values.size_bytes());
      std::fill(values.begin(), values.end(), 0.0f);
      break;
    case ValueCoding::kHalf:
      kernels.fp16.encode(values, nullptr, out);
      kernels.fp16.add(-1, out, values);
      break;
    case ValueCoding::kSign: {
      if (magnitude < 0) magnitude = MeanMagnitude(values);
      StoreField(magnitude, out);
      std::byte* bits = out + sizeof(magnitude);
      kernels.onebit.split(values, nullptr, bits);
      kernels.onebit.add(bits, 0, -magnitude, magnitude, values);
      break;
    }
    case ValueCoding::kByte:
      for (size_t i = 0; i < values.size(); ++i) {
        StoreField(static_cast<int8_t>(values[i]), out + i);
        values[i] = 0;
      }
      break;
  }
}

}  // namespace

void WriteSparse(const SparseEntries& entries, ValueCoding coding, float magnitude,
                 const CodecKernels& kernels, std::vector<std::byte>* out) {
  const size_t count = entries.indices.size();
  const bool all = count == entries.elements && count > 0;
  const RiceShape shape = all ? RiceShape() : ChooseRice(entries.indices);
  const size_t value_bytes = SparseValueBytes(coding, count);
  std::byte* payload = Grow(kSparseHeaderBytes + value_bytes + (shape.total_bits + 7) / 8, out);
  StoreField(static_cast<uint32_t>(count), payload);
  StoreField(static_cast<uint8_t>(shape.low_bits), payload + 4);
  StoreField(all ? IndexCoding::kAll : IndexCoding::kRice, payload + 5);
  StoreField(coding, payload + 6);
  StoreField(uint8_t{0}, payload + 7);
  payload += kSparseHeaderBytes;
  WriteValues(entries.values, coding, magnitude, kernels, payload);
  if (!all) WriteRice(entries.indices, shape, payload + value_bytes);
}

// The chosen Rice codes take less than 2 bits for each element of the slice, sent or not.
size_t MaxSparse(uint32_t elements) {
  return kSparseHeaderBytes + size_t{elements} * sizeof(float) + (size_t{elements} + 3) / 4 +
         sizeof(float);
}

namespace {

constexpr float kLargestByte = 127;

struct SparseParts {
  uint32_t count = 0;
  uint32_t low_bits = 0;
  IndexCoding index_coding = IndexCoding::kRice;
  ValueCoding value_coding = ValueCoding::kFloat;
  const std::byte* values = nullptr;
  float largest = 0;  // an upper bound of the values' magnitudes
  RiceReader indices;
};

// The values of a payload, by entry number.
class Values {
 public:
  explicit Values(const SparseParts& parts)
      : coding_(parts.value_coding),
        bytes_(parts.values),
        magnitude_(coding_ == ValueCoding::kSign ? LoadField<float>(bytes_) : 0) {}

  float At(size_t entry) const {
    switch (coding_) {
      case ValueCoding::kFloat:
        return LoadField<float>(bytes_ + entry * sizeof(float));
      case ValueCoding::kHalf:
        return FloatFromHalf(LoadField<uint16_t>(bytes_ + entry * sizeof(uint16_t)));
      case ValueCoding::kByte:
        return LoadField<int8_t>(bytes_ + entry);
      case ValueCoding::kSign:
        break;
    }
    const std::byte bits = bytes_[sizeof(float) + entry / 8];
    return ((bits >> (entry % 8)) & std::byte{1}) != std::byte{0} ? magnitude_ : -magnitude_;
  }

  // y[i] += scale * the value of entry first + i.
  void Add(size_t first, float scale, const CodecKernels& kernels, std::span<float> y) const {
    switch (coding_) {
      case ValueCoding::kFloat:
        kernels.dense.add_scaled(scale, bytes_ + first * sizeof(float), y);
        break;
      case ValueCoding::kHalf:
        kernels.fp16.add(scale, bytes_ + first * sizeof(uint16_t), y);
        break;
      case ValueCoding::kSign:
        kernels.onebit.add(bytes_ + sizeof(float), first, scale * magnitude_, -(scale * magnitude_),
                           y);
        break;
      case ValueCoding::kByte:
        kernels.ternary.add(reinterpret_cast<const int8_t*>(bytes_) + first, scale, y);
    }
  }

 private:
  const ValueCoding coding_;
  const std::byte* const bytes_;
  const float magnitude_;
};

class CodedEntries {
 public:
  explicit CodedEntries(const SparseParts& parts)
      : count_(parts.count), values_(parts), largest_(parts.largest), rice_(parts.indices) {}

  uint64_t NextIndex() { return read_ < count_ ? (++read_, rice_.Next()) : kNoEntry; }
  float NextValue() const { return values_.At(read_ - 1); }
  float Largest() const { return largest_; }

 private:
  const uint32_t count_;
  const Values values_;
  const float largest_;
  RiceReader rice_;
  uint32_t read_ = 0;  // entries
};

// Reads a payload that has all elements.
class AllReader final : public PayloadReader {
 public:
  AllReader(const SparseParts& parts, const CodecKernels& kernels)
      : PayloadReader(parts.count), values_(parts), largest_(parts.largest), kernels_(kernels) {}

  void AddBlock(float scale, std::span<float> block) override {
    values_.Add(position_, scale, kernels_, block);
    position_ += block.size();
  }
  float Largest() const override { return largest_; }

 private:
  const Values values_;
  const float largest_;
  const CodecKernels& kernels_;
  size_t position_ = 0;
};

// Finds the parts of the payload. Values and indices are not checked yet.
absl::StatusOr<SparseParts> SplitSparse(ByteSpan payload, uint32_t elements,
                                        const std::string& name, ValueCoding last) {
  if (payload.size() < kSparseHeaderBytes) {
    return absl::InvalidArgumentError(name + " payload ends within its header");
  }
  SparseParts parts;
  parts.count = LoadField<uint32_t>(payload.data());
  parts.low_bits = std::to_integer<uint32_t>(payload[4]);
  parts.index_coding = LoadField<IndexCoding>(payload.data() + 5);
  parts.value_coding = LoadField<ValueCoding>(payload.data() + 6);
  if (parts.count > elements) {
    return InvalidArgumentError(name, " payload of ", parts.count, " entries for ", elements,
                                " elements");
  }
  const bool all = parts.index_coding == IndexCoding::kAll;
  if (parts.index_coding > IndexCoding::kAll || parts.value_coding > last ||
      payload[7] != std::byte{0} || (all && parts.count != elements)) {
    return absl::InvalidArgumentError(name + " payload in a form that there is not");
  }
  if (parts.low_bits > (parts.count == 0 || all ? 0 : kMostRiceLowBits)) {
    return InvalidArgumentError(name, " payload with low_bits ", parts.low_bits);
  }
  const size_t value_bytes = SparseValueBytes(parts.value_coding, parts.count);
  const ByteSpan rest = payload.subspan(kSparseHeaderBytes);
  if (rest.size() < value_bytes) {
    return InvalidArgumentError(name, " payload of ", payload.size(), " bytes ends within ",
                                parts.count, " values");
  }
  parts.values = rest.data();
  parts.indices = RiceReader(rest.subspan(value_bytes), parts.low_bits);
  if (all && rest.size() != value_bytes) {
    return absl::InvalidArgumentError(name + " payload has bytes beyond its last value");
  }
  return parts;
}

// Checks the values, and returns an upper bound of their magnitudes.
absl::StatusOr<float> CheckValues(const SparseParts& parts, const CodecKernels& kernels,
                                  const std::string& name) {
  if (parts.value_coding == ValueCoding::kFloat) {
    const float largest = kernels.dense.largest(parts.values, parts.count);
    return std::isfinite(largest) ? absl::StatusOr<float>(largest) : NotFinite(name);
  }
  if (parts.value_coding == ValueCoding::kHalf) {
    const bool finite = kernels.fp16.all_finite(parts.values, parts.count);
    return finite ? absl::StatusOr<float>(kLargestHalf) : NotFinite(name);
  }
  if (parts.value_coding == ValueCoding::kByte) {
    const std::span<const std::byte> levels(parts.values, parts.count);
    if (std::ranges::find(levels, std::byte{0x80}) != levels.end()) {
      return absl::InvalidArgumentError(name + " payload holds -128, which no value is");
    }
    return kLargestByte;
  }
  const float magnitude = LoadField<float>(parts.values);
  PSGD_RETURN_IF_ERROR(CheckMagnitude(name, magnitude));
  const ByteSpan bits(parts.values + sizeof(float), SignBytes(parts.count));
  PSGD_RETURN_IF_ERROR(CheckSigns(name, bits, parts.count));
  return magnitude;
}

}  // namespace

absl::Status CheckIndices(RiceReader reader, uint32_t count, uint32_t elements,
                          const std::string& name) {
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t index = reader.Next();
    if (reader.Overrun()) {
      return InvalidArgumentError(name, " payload ends within index ", i, " of ", count);
    }
    if (index >= elements) {
      return InvalidArgumentError(name, " entry ", i, " has index ", index, " in a slice of ",
                                  elements);
    }
  }
  if (!reader.AtCleanEnd()) {
    return absl::InvalidArgumentError(name + " payload has bits beyond its last index");
  }
  return absl::OkStatus();
}

StatusOrReader OpenSparse(ByteSpan payload, uint32_t elements, absl::string_view literal,
                          const CodecKernels& kernels, ValueCoding last) {
  const std::string name(literal);
  PSGD_ASSIGN_OR_RETURN(SparseParts parts, SplitSparse(payload, elements, name, last));
  PSGD_ASSIGN_OR_RETURN(parts.largest, CheckValues(parts, kernels, name));
  if (parts.index_coding == IndexCoding::kAll) {
    return std::make_unique<AllReader>(parts, kernels);
  }
  PSGD_RETURN_IF_ERROR(CheckIndices(parts.indices, parts.count, elements, name));
  return std::make_unique<EntryReader<CodedEntries>>(elements, CodedEntries(parts));
}

}  // namespace psgd
