// Graphs of several operations, of which cuDNN's engines for attention make one kernel. Here the
// operations run one after the other.
#pragma once

#include <functional>
#include <map>

#include "tests/fakes/emulated_cuda/cudnn_descriptor.h"

namespace psgd::emulated {

// NOT_SUPPORTED for a graph that cuDNN refuses on a device of this compute capability (as 90), or
// that is not emulated. BAD_PARAM for one that makes no sense. An operation must come after those
// whose results it reads.
cudnnStatus_t CheckGraph(const Descriptor& graph, int capability);

// The work of one run on this memory of the tensors, by their ids. Tensors by value are read now.
// Empty if a tensor lacks memory or its memory is not aligned. `error`: relative error of the
// results.
// REQUIRES: CheckGraph succeeded.
std::function<void()> BindGraph(const Known& graph, const std::map<int64_t, void*>& memory,
                                double error);

}  // namespace psgd::emulated
