// The CUDA runtime of an emulated device. Its streams are those of tests/fakes/queued_device.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "tests/fakes/emulated_cuda/threads.h"

namespace psgd::emulated {

// The device of the calling thread.
int CurrentDevice();
// Whether the calling thread records a stream.
bool Recording();
// The device's time, in microseconds, moves on by the time of the running work.
void Spend(double microseconds);

// Puts work on the stream.
void Put(cudaStream_t stream, std::function<void()> work);
// Puts the threads of a launch on the stream. cudaGetLastError reports a launch that a device would
// refuse.
void Launch(cudaStream_t stream, const Three& blocks, const Three& threads,
            std::function<void()> kernel);

}  // namespace psgd::emulated
