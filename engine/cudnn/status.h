// Errors of CUDA, cuDNN and cuBLAS as statuses that name the failed call.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "common/status.h"

namespace psgd::cudnn {

absl::Status CheckCall(cudaError_t error, const char* call);
absl::Status CheckCall(cudnnStatus_t error, const char* call);
absl::Status CheckCall(cublasStatus_t error, const char* call);

}  // namespace psgd::cudnn

#define PSGD_CUDA(call) PSGD_RETURN_IF_ERROR(::psgd::cudnn::CheckCall(call, #call))
