// The payload of codecs that send single elements: which elements, and their values.
//
// Wire, for k entries of n elements:
//   0        u32   k, at most n
//   4        u8    low_bits of the Rice codes, at most 31; 0 without them
//   5        u8    indices: 0 Rice codes; 1 none, all n elements are sent in their order
//   6        u8    values: 0 fp32; 1 binary16; 2 signs; of factors alone 3, whole numbers of a byte
//   7        u8    0
//   8        the values, in the order of their indices: k fp32, or k binary16, or k i8 from -127 to
//            127, or an fp32 magnitude, at least 0, and ceil(k / 8) bytes, bit i % 8 of byte i / 8
//            set where entry i is +magnitude
//   ...      the indices, strictly ascending, as rice.h says; bits beyond the last are 0
//
// The encoder takes the low_bits that need the least room. With low_bits 0 the codes are a bitmap
// that ends with its last set bit, so dense choices need no form of their own. If the payload would
// still be longer than all values, all are sent (SparCML: Renggli et al., SC 2019).
#pragma once

#include <string>

#include "compression/kernels.h"
#include "compression/sparse/rice.h"
#include "compression/sparse/sparse_layout.h"

namespace psgd {

// The entries of one payload.
struct SparseEntries {
  std::span<const uint32_t> indices;  // strictly ascending, below `elements`
  std::span<float> values;            // one per index; becomes what the payload leaves out
  size_t elements = 0;
};

// Appends the payload. For signs, `magnitude` stands for all values; below 0 it is their mean,
// rounded to 8 significant bits. For bytes, values are whole numbers from -127 to 127.
void WriteSparse(const SparseEntries& entries, ValueCoding coding, float magnitude,
                 const CodecKernels& kernels, std::vector<std::byte>* out);

// Checks every byte of a payload and opens it. Codings after `last` are refused. `name` is for
// messages.
StatusOrReader OpenSparse(ByteSpan payload, uint32_t elements, absl::string_view name,
                          const CodecKernels& kernels, ValueCoding last = ValueCoding::kSign);

// Checks that `reader` has `count` indices below `elements`, and nothing after them.
absl::Status CheckIndices(RiceReader reader, uint32_t count, uint32_t elements,
                          const std::string& name);

// Length of the longest payload for that many elements.
size_t MaxSparse(uint32_t elements);

}  // namespace psgd
