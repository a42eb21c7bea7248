// The cuBLAS functions that the engine calls, as loops.
#include <cublas_v2.h>

#include <atomic>
#include <vector>

#include "tests/fakes/emulated_cuda/elements.h"
#include "tests/fakes/emulated_cuda/runtime.h"
#include "tests/fakes/emulated_cuda/settings.h"

struct cublasContext {
  int device = psgd::emulated::CurrentDevice();
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
};

namespace {

using psgd::emulated::IsAligned;
using psgd::emulated::Load;
using psgd::emulated::Store;

// A column-major matrix, as in cuBLAS.
struct Operand {
  const void* data;
  cudaDataType_t type;
  int64_t leading;
  bool transposed;
  bool tensor_float;  // values are rounded to TF32

  std::vector<float> Read(int64_t first, int64_t rows, int64_t columns) const {
    std::vector<float> read(static_cast<size_t>(rows * columns));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        const int64_t at = transposed ? c + r * leading : r + c * leading;
        const float value = Load(data, first + at, type);
        read[static_cast<size_t>(r * columns + c)] =
            tensor_float ? psgd::emulated::TensorFloat(value) : value;
      }
    }
    return read;
  }
};

void Multiply(int64_t m, int64_t n, int64_t k, float alpha, const std::vector<float>& a,
              const std::vector<float>& b, float beta, void* c, int64_t first, cudaDataType_t type,
              int64_t leading) {
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      float sum = 0;  // as on a device
      for (int64_t i = 0; i < k; ++i) {
        sum += a[static_cast<size_t>(row * k + i)] * b[static_cast<size_t>(i * n + column)];
      }
      const int64_t at = first + row + column * leading;
      // With beta 0 the old value may be NaN.
      const float before = beta == 0 ? 0 : beta * Load(c, at, type);
      Store(alpha * sum + before, c, at, type);
    }
  }
}

}  // namespace

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new cublasContext();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void* workspace, size_t) {
  return IsAligned(workspace, 256) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusString(cublasStatus_t) { return "an error of the emulation"; }

cublasStatus_t cublasGemmStridedBatchedEx_64(
    cublasHandle_t handle, cublasOperation_t a_operation, cublasOperation_t b_operation, int64_t m,
    int64_t n, int64_t k, const void* alpha, const void* a, cudaDataType a_type, int64_t a_leading,
    long long a_stride, const void* b, cudaDataType b_type, int64_t b_leading, long long b_stride,
    const void* beta, void* c, cudaDataType c_type, int64_t c_leading, long long c_stride,
    int64_t count, cublasComputeType_t compute, cublasGemmAlgo_t) {
  const bool a_transposed = a_operation == CUBLAS_OP_T, b_transposed = b_operation == CUBLAS_OP_T;
  if (a_type != b_type || a_leading < (a_transposed ? k : m) ||
      b_leading < (b_transposed ? n : k) || c_leading < m) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (handle->device != psgd::emulated::CurrentDevice()) return CUBLAS_STATUS_EXECUTION_FAILED;
  const bool single = a_type == CUDA_R_32F;
  const bool tensor_float = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  if ((compute != CUBLAS_COMPUTE_32F && !(tensor_float && single)) ||
      (c_type != CUDA_R_32F && c_type != a_type)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (!IsAligned(a, single ? 4 : 2) || !IsAligned(b, single ? 4 : 2) ||
      !IsAligned(c, c_type == CUDA_R_32F ? 4 : 2)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!single && (handle->math & CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) == 0) {
    ++std::atomic_ref(psgd::emulated::GetSettings().sums_in_16_bits);
  }
  const float factor = *static_cast<const float*>(alpha), keep = *static_cast<const float*>(beta);
  const Operand left = {a, a_type, a_leading, a_transposed, tensor_float};
  const Operand right = {b, b_type, b_leading, b_transposed, tensor_float};
  psgd::emulated::Put(handle->stream, [=] {
    for (int64_t i = 0; i < count; ++i) {
      Multiply(m, n, k, factor, left.Read(i * a_stride, m, k), right.Read(i * b_stride, k, n), keep,
               c, i * c_stride, c_type, c_leading);
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t a_operation,
                               cublasOperation_t b_operation, int64_t m, int64_t n, int64_t k,
                               const void* alpha, const void* a, cudaDataType a_type,
                               int64_t a_leading, const void* b, cudaDataType b_type,
                               int64_t b_leading, const void* beta, void* c, cudaDataType c_type,
                               int64_t c_leading, cublasComputeType_t compute,
                               cublasGemmAlgo_t algorithm) {
  return cublasGemmStridedBatchedEx_64(handle, a_operation, b_operation, m, n, k, alpha, a, a_type,
                                       a_leading, 0, b, b_type, b_leading, 0, beta, c, c_type,
                                       c_leading, 0, 1, compute, algorithm);
}
