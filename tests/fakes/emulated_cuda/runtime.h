// The CUDA runtime of an emulated device. Its streams are those of tests/fakes/queued_device.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "tests/fakes/emulated_cuda/threads.h"
#include "tests/fakes/queued_device/queues.h"

namespace psgd::emulated {

// All devices are alike.
inline constexpr int kDevices = 3;
// The device of the calling thread.
int CurrentDevice();
int DeviceOf(cudaStream_t stream);
// Whether the calling thread records a stream.
bool Recording();
// The device's time, in microseconds, moves on by the time of the running work.
void Spend(double microseconds);

// Puts work on the stream.
void Put(cudaStream_t stream, std::function<void()> work);
// Calls it now, while no other thread uses the devices.
void Call(const std::function<void()>& call);
// Puts a meeting on the stream. REQUIRES: called within Call.
void Meet(cudaStream_t stream, const std::shared_ptr<queued::Meeting>& meeting, size_t member);
// Puts the threads of a launch on the stream. cudaGetLastError reports a launch that a device would
// refuse.
void Launch(cudaStream_t stream, const Three& blocks, const Three& threads,
            std::function<void()> kernel);

}  // namespace psgd::emulated
