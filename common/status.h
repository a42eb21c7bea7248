// absl::Status, two macros that shorten its use, Annotate, and errors made of several parts.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace psgd {

// Puts `context` before the message of a failed status: "context: message".
absl::Status Annotate(const absl::Status& status, absl::string_view context);

// Like absl's functions. They take several parts and join them with absl::StrCat.
template <typename... Parts>
absl::Status InvalidArgumentError(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}
template <typename... Parts>
absl::Status DataLossError(const Parts&... parts) {
  return absl::DataLossError(absl::StrCat(parts...));
}
template <typename... Parts>
absl::Status NotFoundError(const Parts&... parts) {
  return absl::NotFoundError(absl::StrCat(parts...));
}
template <typename... Parts>
absl::Status FailedPreconditionError(const Parts&... parts) {
  return absl::FailedPreconditionError(absl::StrCat(parts...));
}
template <typename... Parts>
absl::Status ResourceExhaustedError(const Parts&... parts) {
  return absl::ResourceExhaustedError(absl::StrCat(parts...));
}
template <typename... Parts>
absl::Status UnavailableError(const Parts&... parts) {
  return absl::UnavailableError(absl::StrCat(parts...));
}
template <typename... Parts>
absl::Status OutOfRangeError(const Parts&... parts) {
  return absl::OutOfRangeError(absl::StrCat(parts...));
}
template <typename... Parts>
absl::Status AlreadyExistsError(const Parts&... parts) {
  return absl::AlreadyExistsError(absl::StrCat(parts...));
}

}  // namespace psgd

#define PSGD_CONCAT_(a, b) a##b
#define PSGD_CONCAT(a, b) PSGD_CONCAT_(a, b)

#define PSGD_RETURN_IF_ERROR(expression)                                                   \
  do {                                                                                     \
    if (absl::Status psgd_status_ = (expression); !psgd_status_.ok()) return psgd_status_; \
  } while (false)

#define PSGD_ASSIGN_OR_RETURN(target, expression) \
  PSGD_ASSIGN_OR_RETURN_(PSGD_CONCAT(psgd_statusor_, __LINE__), target, expression)
#define PSGD_ASSIGN_OR_RETURN_(temporary, target, expression) \
  auto temporary = (expression);                              \
  if (!temporary.ok()) return temporary.status();             \
  target = std::move(temporary).value()
