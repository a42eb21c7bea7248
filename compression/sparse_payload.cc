#include "compression/sparse_payload.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "compression/coarse.h"
#include "compression/payload_bytes.h"
#include "compression/rice.h"
#include "compression/sign_bits.h"

namespace psgd {
namespace {

// NaN where the values are not finite, so that a shard refuses what the caller should have.
float MeanMagnitude(std::span<const float> values) {
  if (values.empty()) return 0;
  double sum = 0;
  for (float value : values) sum += std::fabs(value);
  if (!std::isfinite(sum)) return std::numeric_limits<float>::quiet_NaN();
  return RoundCoarse(static_cast<float>(sum / static_cast<double>(values.size())));
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
  }
}

}  // namespace

size_t SparseValueBytes(ValueCoding coding, size_t count) {
  switch (coding) {
    case ValueCoding::kFloat:
      return count * sizeof(float);
    case ValueCoding::kHalf:
      return count * sizeof(uint16_t);
    case ValueCoding::kSign:
      return sizeof(float) + SignBytes(count);
  }
  return 0;
}

size_t WorthSending(size_t keep, size_t elements, ValueCoding coding) {
  if (coding == ValueCoding::kSign) return keep;
  const size_t bitmap = (elements + 7) / 8;
  return SparseValueBytes(coding, keep) + bitmap >= SparseValueBytes(coding, elements) ? elements
                                                                                       : keep;
}

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

}  // namespace psgd
