// The CUDA runtime of a device that a host plays: its streams are those of
// tests/fakes/queued_device.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "tests/fakes/emulated_cuda/threads.h"

namespace psgd::emulated {

// Puts the work on the stream.
void Put(cudaStream_t stream, std::function<void()> work);
// The same for all threads of a launch; one that a device would refuse is told by cudaGetLastError.
void Launch(cudaStream_t stream, const Three& blocks, const Three& threads,
            std::function<void()> kernel);

}  // namespace psgd::emulated
