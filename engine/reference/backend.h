// The reference backend: every op in plain loops, in fp32 or double. It is slow and short. Tests
// compare the other backends with it.
#pragma once

#include <memory>

#include "engine/runtime/backend.h"

namespace psgd {

// T: float or double, the type of every Element::kReal tensor.
template <typename T>
std::unique_ptr<Backend> MakeReferenceBackend(const BackendOptions& options);

}  // namespace psgd
