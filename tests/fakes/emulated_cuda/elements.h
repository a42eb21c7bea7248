// Loads and stores elements of the libraries' types as floats. Booleans are bytes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <library_types.h>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace psgd::emulated {

inline bool IsAligned(const void* at, size_t bytes) {
  return reinterpret_cast<uintptr_t>(at) % bytes == 0;
}

// TF32 has 10 bits of the fraction. A device cuts the others off, which is the worst that it may
// do.
inline float TensorFloat(float value) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xFFFFE000u);
}

inline float Load(const void* at, int64_t i, cudaDataType_t type) {
  switch (type) {
    case CUDA_R_16BF:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(at)[i]);
    case CUDA_R_16F:
      return __half2float(static_cast<const __half*>(at)[i]);
    case CUDA_R_32I:
      return static_cast<float>(static_cast<const int32_t*>(at)[i]);
    case CUDA_R_8U:
      return static_cast<const uint8_t*>(at)[i];
    default:
      return static_cast<const float*>(at)[i];
  }
}

inline void Store(float value, void* at, int64_t i, cudaDataType_t type) {
  switch (type) {
    case CUDA_R_16BF:
      static_cast<__nv_bfloat16*>(at)[i] = __float2bfloat16(value);
      break;
    case CUDA_R_16F:
      static_cast<__half*>(at)[i] = __float2half(value);
      break;
    case CUDA_R_32I:
      static_cast<int32_t*>(at)[i] = static_cast<int32_t>(value);
      break;
    case CUDA_R_8U:
      static_cast<uint8_t*>(at)[i] = value != 0;
      break;
    default:
      static_cast<float*>(at)[i] = value;
  }
}

// The value as the type stores it.
inline float Rounded(float value, cudaDataType_t type) {
  alignas(float) char stored[sizeof(float)];
  Store(value, stored, 0, type);
  return Load(stored, 0, type);
}

}  // namespace psgd::emulated
