// Codes of a few bits, on a device. See compression/dense/qsgd.h.
#pragma once

#include "compression/cuda/block.h"
#include "compression/dense/quantized.h"

namespace psgd::cuda {

// A phase: packs `count` codes, a byte each, group after group: a word of 16 bits for each bit of
// the codes. REQUIRES: codes beyond the last, up to a whole group, are 0.
PS_HD inline void PackPlanes(const Block& block, const uint32_t* codes, uint32_t count,
                             uint32_t bits, uint16_t* out) {
  constexpr uint32_t kWords = kCodeGroup / 4;
  const uint32_t groups = (count + kCodeGroup - 1) / kCodeGroup;
  block.ForEach(size_t{groups} * bits, [&](size_t item) {
    const uint32_t group = static_cast<uint32_t>(item) / bits;
    const uint32_t plane = static_cast<uint32_t>(item) % bits;
    uint32_t packed = 0;
    for (uint32_t w = 0; w < kWords; ++w) {
      // The product moves the lowest bit of each byte to bits 24 to 27.
      const uint32_t lowest = codes[group * kWords + w] >> plane & 0x01010101u;
      packed |= (lowest * 0x01020408u >> 24 & 0xFu) << (4 * w);
    }
    out[item] = static_cast<uint16_t>(packed);
  });
}

}  // namespace psgd::cuda
