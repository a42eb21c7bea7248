// Converts between absl::Status and grpc::Status. Both have the same codes.
#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "common/status.h"

namespace psgd {

inline grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

inline absl::Status ToAbsl(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace psgd
