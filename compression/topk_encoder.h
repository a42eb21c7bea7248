// The encoder of topk.h.
#pragma once

#include <vector>

#include "compression/kernels.h"
#include "compression/select.h"

namespace psgd {

// Not thread-safe.
class TopkEncoder final : public Encoder {
 public:
  TopkEncoder(double density, const CodecKernels& kernels) : density_(density), kernels_(kernels) {}

  void Encode(const EncodeInput& input, std::vector<std::byte>* out) override;

 private:
  // Both leave gradient + residual in the residual (if any) and the k entries in indices_, values_.
  bool SelectFromSample(const EncodeInput& input, size_t keep);
  void SelectFromAll(std::span<const float> corrected, size_t keep);
  // Appends what reaches `least` among some elements; the residual may be null.
  void Gather(std::span<const float> gradient, float* residual, uint32_t least, size_t first);
  // Drops the entries from `begin` on that the cut does not keep; counts its ties down.
  void Apply(size_t begin, Cut* cut);

  const double density_;
  const CodecKernels& kernels_;
  // Kept from step to step only to spare allocations.
  size_t count_ = 0;  // entries in use
  std::vector<uint32_t> indices_;
  std::vector<float> values_;
  std::vector<uint32_t> scratch_;
};

}  // namespace psgd
