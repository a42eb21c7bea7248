#include "data/read_user_data.h"

#include <new>

namespace psgd {

absl::Status ReadUserData(const std::function<absl::Status()>& read) {
  try {
    absl::Status status = read();
    switch (status.code()) {
      case absl::StatusCode::kDataLoss:
      case absl::StatusCode::kPermissionDenied:
      case absl::StatusCode::kFailedPrecondition:  // a folder where a file belongs, and the like
        return absl::InvalidArgumentError(status.message());
      default:
        return status;
    }
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        "not enough memory to load the dataset; use a smaller one or a larger machine");
  }
}

}  // namespace psgd
