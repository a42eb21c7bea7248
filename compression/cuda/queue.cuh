// How CudaQueue launches kernels. For .cu files.
#pragma once

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>

#include "compression/cuda/block.h"
#include "compression/cuda/queue.h"

namespace psgd::cuda {

template <typename Body>
__global__ void __launch_bounds__(kThreads)
    RunBody(const __grid_constant__ Body body, const uint32_t* skip) {
  if (skip != nullptr && *skip != 0) return;
  __shared__ typename Body::Shared shared;
  body(Block(), shared);
}

template <typename Body>
void CudaQueue::Launch(uint32_t blocks, const Body& body) {
  if (scratch_ == nullptr || blocks == 0) return;
  RunBody<<<blocks, kThreads, 0, stream_>>>(body, skip_);
  Note(cudaGetLastError());
}

// Returns f(i), or 0 if *skip is set.
template <typename F>
struct Unless {
  F f;
  const uint32_t* skip;
  PS_HD auto operator()(uint32_t i) const -> decltype(f(i)) {
    return skip != nullptr && *skip != 0 ? decltype(f(i)){} : f(i);
  }
};

// Each function calls CUB twice: to get the size of its memory, then to do the work.
template <typename Flag>
void CudaQueue::Select(uint32_t count, const Flag& flag, uint32_t* out, uint32_t* found) {
  if (count == 0) return;
  const thrust::counting_iterator<uint32_t> indices(0);
  size_t bytes = 0;
  Note(cub::DeviceSelect::If(nullptr, bytes, indices, out, found, static_cast<int>(count),
                             Unless<Flag>{flag, skip_}, stream_));
  std::byte* const temporary = Scratch<std::byte>(bytes);
  if (scratch_ == nullptr) return;
  Note(cub::DeviceSelect::If(temporary, bytes, indices, out, found, static_cast<int>(count),
                             Unless<Flag>{flag, skip_}, stream_));
}

template <typename Of>
void CudaQueue::Scan(uint32_t count, const Of& of, uint32_t* out) {
  if (count == 0) return;
  const auto terms = thrust::make_transform_iterator(thrust::counting_iterator<uint32_t>(0),
                                                     Unless<Of>{of, skip_});
  size_t bytes = 0;
  Note(cub::DeviceScan::ExclusiveSum(nullptr, bytes, terms, out, static_cast<int>(count), stream_));
  std::byte* const temporary = Scratch<std::byte>(bytes);
  if (scratch_ == nullptr) return;
  Note(cub::DeviceScan::ExclusiveSum(temporary, bytes, terms, out, static_cast<int>(count),
                                     stream_));
}

}  // namespace psgd::cuda
