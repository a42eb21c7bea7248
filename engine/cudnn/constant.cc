#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "engine/cudnn/lower.h"

namespace psgd::cudnn {
namespace {

using Values = std::shared_ptr<const std::vector<float>>;

// The same memory unless a value has to change.
Values KeptFinite(const Lowering& l, const Values& values) {
  const bool keeps = std::ranges::all_of(
      *values, [&](float value) { return std::isnan(value) || l.KeptFinite(value) == value; });
  if (keeps) return values;
  auto kept = std::make_shared<std::vector<float>>(*values);
  for (float& value : *kept) value = l.KeptFinite(value);
  return kept;
}

}  // namespace

void Lower(const Constant& op, const Context& c) {
  Lowering& l = c.lowering;
  const View y = l.PutOnce(c.out(0));
  // The launch owns the values, so they live until an asynchronous copy is done.
  l.CallOnce([=, values = KeptFinite(l, op.values), stream = l.stream()](const Buffers& b,
                                                                         const Step&) {
    return CheckCall(cudaMemcpyAsync(b[y.buffer], values->data(), values->size() * sizeof(float),
                                     cudaMemcpyHostToDevice, stream),
                     "cudaMemcpyAsync");
  });
}

}  // namespace psgd::cudnn
