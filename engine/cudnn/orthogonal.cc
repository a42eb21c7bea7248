#include "engine/cudnn/orthogonal.h"

#include <algorithm>
#include <utility>

#include "common/newton_schulz.h"

namespace psgd::cudnn {
namespace {

// A column-major matrix without gaps, or its transpose, as a factor of a product.
struct Factor {
  const float* data;
  cublasOperation_t operation = CUBLAS_OP_N;
};

}  // namespace

absl::Status MakeOrthogonal(const Device& device, cublasComputeType_t compute, size_t rows,
                            size_t columns, const OrthogonalMemory& memory) {
  using Constants = NewtonSchulz;
  const auto shorter = static_cast<int64_t>(std::min(rows, columns));
  const auto longer = static_cast<int64_t>(std::max(rows, columns));
  float* const y = memory.scratch;
  float* const polynomial = y + shorter * shorter;
  float* from = polynomial + shorter * shorter;
  float* to = memory.x;
  // out = scale a b + keep old; m x n. `old` is copied, because a product adds to what is there.
  const auto multiply = [&](int64_t m, int64_t n, int64_t inner, float scale, const Factor& a,
                            const Factor& b, float keep, const float* old,
                            float* out) -> absl::Status {
    if (old != nullptr) {
      const auto bytes = static_cast<size_t>(m * n) * sizeof(float);
      PSGD_CUDA(cudaMemcpyAsync(out, old, bytes, cudaMemcpyDeviceToDevice, device.stream()));
    }
    return CheckCall(cublasGemmEx_64(device.blas(), a.operation, b.operation, m, n, inner, &scale,
                                     a.data, CUDA_R_32F, a.operation == CUBLAS_OP_N ? m : inner,
                                     b.data, CUDA_R_32F, b.operation == CUBLAS_OP_N ? inner : n,
                                     &keep, out, CUDA_R_32F, m, compute, CUBLAS_GEMM_DEFAULT),
                     "cublasGemmEx_64");
  };
  PSGD_CUDA(Normalize(device.stream(), rows * columns, memory.x, memory.sums, from));
  static_assert(Constants::kRounds % 2 == 1);  // the last round ends in x
  for (int round = 0; round < Constants::kRounds; ++round) {
    // cuBLAS sees x'. If x is tall, that is the wide matrix, and the polynomial is the left factor.
    // Otherwise it is the wide one's transpose, and the polynomial, which is symmetric, the right.
    const bool tall = rows > columns;
    const Factor x = {from}, turned = {from, CUBLAS_OP_T}, factor = {polynomial};
    PSGD_RETURN_IF_ERROR(
        multiply(shorter, shorter, longer, 1, tall ? x : turned, tall ? turned : x, 0, nullptr, y));
    PSGD_RETURN_IF_ERROR(
        multiply(shorter, shorter, shorter, Constants::kC, {y}, {y}, Constants::kB, y, polynomial));
    PSGD_RETURN_IF_ERROR(multiply(tall ? shorter : longer, tall ? longer : shorter, shorter, 1,
                                  tall ? factor : x, tall ? x : factor, Constants::kA, from, to));
    std::swap(from, to);
  }
  return absl::OkStatus();
}

}  // namespace psgd::cudnn
