// The functions of cuBLAS and cublasLt that the engine calls, as loops.
#include <cublasLt.h>
#include <cublas_v2.h>

#include <atomic>
#include <cstring>
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

// d = alpha a b + beta c + `added`, a number for each row, or empty.
void Multiply(int64_t m, int64_t n, int64_t k, float alpha, const std::vector<float>& a,
              const std::vector<float>& b, float beta, const void* c, void* d, int64_t first,
              cudaDataType_t type, int64_t leading, const std::vector<float>& added = {}) {
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      float sum = 0;  // as on a device
      for (int64_t i = 0; i < k; ++i) {
        sum += a[static_cast<size_t>(row * k + i)] * b[static_cast<size_t>(i * n + column)];
      }
      const int64_t at = first + row + column * leading;
      // With beta 0 the old value may be NaN.
      const float before = beta == 0 ? 0 : beta * Load(c, at, type);
      const float further = added.empty() ? 0 : added[static_cast<size_t>(row)];
      Store(alpha * sum + before + further, d, at, type);
    }
  }
}

struct LtOperation {
  cublasComputeType_t compute;
  int32_t first = CUBLAS_OP_N, second = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* vector = nullptr;
};
struct LtLayout {
  cudaDataType_t type;
  int64_t rows, columns, leading;
  bool operator==(const LtLayout&) const = default;
};

const LtLayout& LayoutOf(cublasLtMatrixLayout_t layout) {
  return *reinterpret_cast<const LtLayout*>(layout);
}

// Without an epilogue the product needs no vector.
bool IsComplete(const LtOperation& operation) {
  const uint32_t epilogue = operation.epilogue;
  const bool vector = epilogue == CUBLASLT_EPILOGUE_BIAS ||
                      epilogue == CUBLASLT_EPILOGUE_RELU_BIAS ||
                      epilogue == CUBLASLT_EPILOGUE_BGRADB;
  return vector ? operation.vector != nullptr : epilogue == CUBLASLT_EPILOGUE_DEFAULT;
}

// Matrices of this layout share memory.
bool Overlap(const void* one, const void* other, const LtLayout& layout) {
  const int64_t elements = (layout.columns - 1) * layout.leading + layout.rows;
  const auto bytes = static_cast<size_t>(elements * (layout.type == CUDA_R_32F ? 4 : 2));
  const auto a = reinterpret_cast<uintptr_t>(one), b = reinterpret_cast<uintptr_t>(other);
  return a < b + bytes && b < a + bytes;
}

template <typename T>
cublasStatus_t Set(T* field, const void* value, size_t bytes) {
  if (bytes != sizeof *field) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(field, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                        cudaDataType_t) {
  *made = reinterpret_cast<cublasLtMatmulDesc_t>(new LtOperation{compute});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete reinterpret_cast<LtOperation*>(operation);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t set,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void* value, size_t bytes) {
  auto* const operation = reinterpret_cast<LtOperation*>(set);
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return Set(&operation->first, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return Set(&operation->second, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return Set(&operation->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return Set(&operation->vector, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  *made = reinterpret_cast<cublasLtMatrixLayout_t>(
      new LtLayout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<LtLayout*>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = new cublasLtMatmulPreferenceOpaque_t();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void* value, size_t bytes) {
  if (name != CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return CUBLAS_STATUS_SUCCESS;
  uint32_t mask = 0;
  const cublasStatus_t set = Set(&mask, value, bytes);
  preference->data[0] = mask;
  return set;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t described, cublasLtMatrixLayout_t first,
    cublasLtMatrixLayout_t second, cublasLtMatrixLayout_t added, cublasLtMatrixLayout_t product,
    cublasLtMatmulPreference_t preference, int, cublasLtMatmulHeuristicResult_t results[],
    int* found) {
  const auto& operation = *reinterpret_cast<const LtOperation*>(described);
  const LtLayout &a = LayoutOf(first), &b = LayoutOf(second), &c = LayoutOf(product);
  *found = 0;
  if (a.type != b.type || (c.type != a.type && c.type != CUDA_R_32F) || LayoutOf(added) != c ||
      !IsComplete(operation)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!psgd::emulated::GetSettings().fuses_products) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (a.type != CUDA_R_32F && preference->data[0] != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) {
    ++std::atomic_ref(psgd::emulated::GetSettings().sums_in_16_bits);
  }
  results[0] = {};
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t*,
                                                 cublasLtMatmulAlgoCapAttributes_t name,
                                                 void* value, size_t bytes, size_t*) {
  const int32_t supported = psgd::emulated::GetSettings().adds_elsewhere ? 1 : 0;
  if (name != CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT || bytes != sizeof supported) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(value, &supported, sizeof supported);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t described,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t first,
                              const void* b, cublasLtMatrixLayout_t second, const void* beta,
                              const void* c, cublasLtMatrixLayout_t added, void* d,
                              cublasLtMatrixLayout_t product, const cublasLtMatmulAlgo_t*,
                              void* workspace, size_t, cudaStream_t stream) {
  const LtOperation operation = *reinterpret_cast<const LtOperation*>(described);
  const LtLayout x = LayoutOf(first), y = LayoutOf(second), z = LayoutOf(product);
  const float factor = *static_cast<const float*>(alpha), keep = *static_cast<const float*>(beta);
  if (LayoutOf(added) != z || !IsComplete(operation) || !IsAligned(workspace, 256)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  for (const void* at : {a, b, c, static_cast<const void*>(d)}) {
    if (!IsAligned(at, 16)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (c != d && !psgd::emulated::GetSettings().adds_elsewhere) return CUBLAS_STATUS_NOT_SUPPORTED;
  // cublasLt writes in place, or elsewhere, but not beside.
  if (c != d && Overlap(c, d, z)) return CUBLAS_STATUS_INVALID_VALUE;
  const bool a_transposed = operation.first == CUBLAS_OP_T;
  const bool b_transposed = operation.second == CUBLAS_OP_T;
  const int64_t m = z.rows, n = z.columns, k = a_transposed ? x.rows : x.columns;
  if ((a_transposed ? x.columns : x.rows) != m || (b_transposed ? y.rows : y.columns) != n ||
      (b_transposed ? y.columns : y.rows) != k) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (reinterpret_cast<cublasHandle_t>(handle)->device != psgd::emulated::CurrentDevice()) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  ++std::atomic_ref(psgd::emulated::GetSettings().fused_products);
  const bool tensor_float = operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const Operand left = {a, x.type, x.leading, a_transposed, tensor_float};
  const Operand right = {b, y.type, y.leading, b_transposed, tensor_float};
  psgd::emulated::Put(stream, [=] {
    const std::vector<float> of_right = right.Read(0, k, n);
    std::vector<float> bias;
    const bool relu = operation.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
    if (relu || operation.epilogue == CUBLASLT_EPILOGUE_BIAS) {
      for (int64_t row = 0; row < m; ++row) bias.push_back(Load(operation.vector, row, z.type));
    } else if (operation.epilogue == CUBLASLT_EPILOGUE_BGRADB) {
      for (int64_t column = 0; column < n; ++column) {
        float sum = 0;
        for (int64_t i = 0; i < k; ++i) sum += of_right[static_cast<size_t>(i * n + column)];
        Store(sum, operation.vector, column, z.type);
      }
    }
    Multiply(m, n, k, factor, left.Read(0, m, k), of_right, keep, c, d, 0, z.type, z.leading, bias);
    for (int64_t i = 0; relu && i < m * n; ++i) {
      const int64_t at = i % m + i / m * z.leading;
      if (!(Load(d, at, z.type) > 0)) Store(0, d, at, z.type);
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

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
               c, c, i * c_stride, c_type, c_leading);
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
