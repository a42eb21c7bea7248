// absl::Status, two macros that shorten its use, and Annotate.
#pragma once

#include "absl/strings/string_view.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace psgd {

// Puts `context` before the message of a failed status: "context: message".
absl::Status Annotate(const absl::Status& status, absl::string_view context);

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
