#include "compression/sparse_payload.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compression/coarse.h"
#include "compression/lanes.h"
#include "compression/payload_bytes.h"
#include "compression/rice.h"
#include "compression/sign_bits.h"

namespace psgd {
namespace {

// Not finite where the values are not, so that a shard refuses what the caller should have.
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

}  // namespace psgd
