// A product of matrices that does a little more while it reads or writes them, by cublasLt. That
// saves passes over memory.
#pragma once

#include <cublasLt.h>

#include <memory>

#include "engine/cudnn/device.h"

namespace psgd::cudnn {

// A column-major matrix, as cuBLAS has it. `rows` and `columns` are those in memory.
struct BlasMatrix {
  cudaDataType_t type;
  int64_t rows, columns;
  int64_t stride;  // elements from column to column
  bool transposed = false;
};

// Not thread-safe.
class FusedProduct {
 public:
  // The vector has the type of the product.
  enum class Extra {
    kNothing,
    kAddVector,      // adds the vector to each column of the product
    kAddVectorRelu,  // the same, and then sets what is below zero to zero
    kSumSecond,      // the vector becomes the sum of the second factor over the inner dimension
  };
  // UNIMPLEMENTED: cuBLAS has no such product.
  static absl::StatusOr<std::shared_ptr<FusedProduct>> Plan(const Device& device, Extra extra,
                                                            cublasComputeType_t compute,
                                                            const BlasMatrix& first,
                                                            const BlasMatrix& second,
                                                            const BlasMatrix& product);
  FusedProduct() = default;
  ~FusedProduct();
  FusedProduct(const FusedProduct&) = delete;
  FusedProduct& operator=(const FusedProduct&) = delete;

  // Whether `added` of Run may lie elsewhere than the product.
  bool AddsElsewhere() const;
  // Adds the matrix `added` (null: none) to the product. `added` may be `product`.
  // Everything is added before the result is rounded.
  absl::Status Run(const Device& device, const void* first, const void* second, const void* added,
                   void* product, void* vector);

 private:
  absl::Status Describe(Extra extra, cublasComputeType_t compute, const BlasMatrix& first,
                        const BlasMatrix& second, const BlasMatrix& product);
  absl::Status SetVector(void* vector);
  absl::Status Choose(const Device& device);

  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, product_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_ = {};
};

}  // namespace psgd::cudnn
