#include "engine/cudnn/fused_product.h"

namespace psgd::cudnn {
namespace {

template <typename T>
absl::Status Set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t name, T value) {
  return CheckCall(cublasLtMatmulDescSetAttribute(operation, name, &value, sizeof value),
                   "cublasLtMatmulDescSetAttribute");
}

template <typename T>
absl::Status Set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t name,
                 T value) {
  return CheckCall(cublasLtMatmulPreferenceSetAttribute(preference, name, &value, sizeof value),
                   "cublasLtMatmulPreferenceSetAttribute");
}

absl::Status MakeLayout(const BlasMatrix& matrix, cublasLtMatrixLayout_t* layout) {
  return CheckCall(
      cublasLtMatrixLayoutCreate(layout, matrix.type, static_cast<uint64_t>(matrix.rows),
                                 static_cast<uint64_t>(matrix.columns), matrix.stride),
      "cublasLtMatrixLayoutCreate");
}

cublasLtEpilogue_t EpilogueOf(FusedProduct::Extra extra) {
  switch (extra) {
    case FusedProduct::Extra::kAddVector:
      return CUBLASLT_EPILOGUE_BIAS;
    case FusedProduct::Extra::kAddVectorRelu:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case FusedProduct::Extra::kSumSecond:
      return CUBLASLT_EPILOGUE_BGRADB;
    case FusedProduct::Extra::kNothing:
      break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

cublasOperation_t OperationOf(const BlasMatrix& matrix) {
  return matrix.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

// cuBLAS allows this: a handle of cuBLAS is also one of cublasLt.
cublasLtHandle_t HandleOf(const Device& device) {
  return reinterpret_cast<cublasLtHandle_t>(device.blas());
}

}  // namespace

absl::StatusOr<std::shared_ptr<FusedProduct>> FusedProduct::Plan(const Device& device, Extra extra,
                                                                 cublasComputeType_t compute,
                                                                 const BlasMatrix& first,
                                                                 const BlasMatrix& second,
                                                                 const BlasMatrix& product) {
  auto made = std::make_shared<FusedProduct>();
  PSGD_RETURN_IF_ERROR(made->Describe(extra, compute, first, second, product));
  PSGD_RETURN_IF_ERROR(made->Choose(device));
  return made;
}

FusedProduct::~FusedProduct() {
  if (operation_ != nullptr) cublasLtMatmulDescDestroy(operation_);
  for (cublasLtMatrixLayout_t layout : {first_, second_, product_}) {
    if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
  }
}

absl::Status FusedProduct::Describe(Extra extra, cublasComputeType_t compute,
                                    const BlasMatrix& first, const BlasMatrix& second,
                                    const BlasMatrix& product) {
  PSGD_CUDA(cublasLtMatmulDescCreate(&operation_, compute, CUDA_R_32F));
  PSGD_RETURN_IF_ERROR(Set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, OperationOf(first)));
  PSGD_RETURN_IF_ERROR(Set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, OperationOf(second)));
  PSGD_RETURN_IF_ERROR(Set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, EpilogueOf(extra)));
  PSGD_RETURN_IF_ERROR(MakeLayout(first, &first_));
  PSGD_RETURN_IF_ERROR(MakeLayout(second, &second_));
  return MakeLayout(product, &product_);
}

absl::Status FusedProduct::SetVector(void* vector) {
  return Set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
}

absl::Status FusedProduct::Choose(const Device& device) {
  // Only its alignment counts here.
  PSGD_RETURN_IF_ERROR(SetVector(device.blas_workspace()));
  cublasLtMatmulPreference_t preference = nullptr;
  PSGD_CUDA(cublasLtMatmulPreferenceCreate(&preference));
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t,
                        decltype(&cublasLtMatmulPreferenceDestroy)>
      destroyed(preference, cublasLtMatmulPreferenceDestroy);
  PSGD_RETURN_IF_ERROR(
      Set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{Device::kBlasWorkspace}));
  // Partial sums stay in fp32.
  PSGD_RETURN_IF_ERROR(Set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                           uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}));
  for (const auto alignment :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    PSGD_RETURN_IF_ERROR(Set(preference, alignment, uint32_t{16}));
  }
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  const cublasStatus_t searched =
      cublasLtMatmulAlgoGetHeuristic(HandleOf(device), operation_, first_, second_, product_,
                                     product_, preference, 1, &result, &found);
  if (searched == CUBLAS_STATUS_NOT_SUPPORTED ||
      (searched == CUBLAS_STATUS_SUCCESS && found == 0)) {
    return absl::UnimplementedError("cuBLAS has no such product");
  }
  PSGD_RETURN_IF_ERROR(CheckCall(searched, "cublasLtMatmulAlgoGetHeuristic"));
  algorithm_ = result.algo;
  return CheckCall(result.state, "cublasLtMatmulAlgoGetHeuristic");
}

bool FusedProduct::AddsElsewhere() const {
  int32_t supported = 0;
  size_t written = 0;
  const cublasStatus_t asked =
      cublasLtMatmulAlgoCapGetAttribute(&algorithm_, CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT,
                                        &supported, sizeof supported, &written);
  return asked == CUBLAS_STATUS_SUCCESS && supported != 0;
}

absl::Status FusedProduct::Run(const Device& device, const void* first, const void* second,
                               const void* added, void* product, void* vector) {
  PSGD_RETURN_IF_ERROR(SetVector(vector));
  const float one = 1, keep = added != nullptr ? 1 : 0;
  return CheckCall(
      cublasLtMatmul(HandleOf(device), operation_, &one, first, first_, second, second_, &keep,
                     added != nullptr ? added : product, product_, product, product_, &algorithm_,
                     device.blas_workspace(), Device::kBlasWorkspace, device.stream()),
      "cublasLtMatmul");
}

}  // namespace psgd::cudnn
