// The oracle: every op in plain loops, in fp32 or double. Slow, short, and what the other backends
// are compared with.
#pragma once

#include <memory>

#include "engine/runtime/backend.h"

namespace psgd {

// T: float or double, the type of every Element::kReal tensor.
template <typename T>
std::unique_ptr<Backend> MakeReferenceBackend(const BackendOptions& options);

}  // namespace psgd
