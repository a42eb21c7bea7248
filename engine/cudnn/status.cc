#include "engine/cudnn/status.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace psgd::cudnn {
namespace {

// The function's name in the text of a call, as "cudnnSetTensor4dDescriptor".
std::string Name(const char* call) {
  const std::string text = call;
  return text.substr(0, text.find('('));
}

}  // namespace

// CUDA keeps the error of a call until cudaGetLastError. A later kernel launch would report it as
// its own error, so CheckCall clears it.
absl::Status CheckCall(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();
  const std::string message = absl::StrCat(Name(call), ": ", cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) {
    return absl::ResourceExhaustedError(
        absl::StrCat(message, "; use a smaller data.batch, or a device with more free memory"));
  }
  return absl::InternalError(message);
}

absl::Status CheckCall(cudnnStatus_t error, const char* call) {
  if (error == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  cudaGetLastError();  // clears the error of a CUDA call inside the library
  char detail[512] = "";
  cudnnGetLastErrorString(detail, sizeof detail);
  const std::string message =
      absl::StrCat(Name(call), ": ", cudnnGetErrorString(error), " ", detail);
  // UNIMPLEMENTED: this version or device cannot compute it.
  if (CUDNN_STATUS_CATEGORY(error) == CUDNN_STATUS_NOT_SUPPORTED) {
    return absl::UnimplementedError(message);
  }
  return absl::InternalError(message);
}

absl::Status CheckCall(cublasStatus_t error, const char* call) {
  if (error == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  cudaGetLastError();
  return absl::InternalError(absl::StrCat(Name(call), ": ", cublasGetStatusString(error)));
}

}  // namespace psgd::cudnn
