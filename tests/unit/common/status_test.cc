#include "common/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace psgd {
namespace {

absl::StatusOr<std::unique_ptr<int>> Make(int value) {
  if (value < 0) return absl::OutOfRangeError("negative");
  return std::make_unique<int>(value);
}

absl::Status Check(int value) {
  PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<int> made, Make(value));
  // Two uses in one scope need distinct temporaries.
  PSGD_ASSIGN_OR_RETURN(auto again, Make(*made));
  PSGD_RETURN_IF_ERROR(*again == 3 ? absl::DataLossError("three") : absl::OkStatus());
  return absl::OkStatus();
}

int Evaluations(int* count) { return ++*count; }

TEST(StatusMacros, PassOnWhatFailedAndOnlyThat) {
  EXPECT_TRUE(Check(1).ok());
  EXPECT_TRUE(absl::IsOutOfRange(Check(-1)));
  EXPECT_TRUE(absl::IsDataLoss(Check(3)));
}

TEST(StatusMacros, EvaluateOnce) {
  int count = 0;
  const auto call = [&]() -> absl::Status {
    PSGD_RETURN_IF_ERROR(Evaluations(&count) > 1 ? absl::InternalError("twice") : absl::OkStatus());
    PSGD_ASSIGN_OR_RETURN(const int value, absl::StatusOr<int>(Evaluations(&count)));
    return value == 2 ? absl::OkStatus() : absl::InternalError("not twice");
  };
  EXPECT_TRUE(call().ok());
}

TEST(Annotate, PutsTheContextFirstAndKeepsTheCode) {
  const absl::Status status = Annotate(absl::NotFoundError("no file"), "config.yaml");
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(status.message(), "config.yaml: no file");
  EXPECT_TRUE(Annotate(absl::OkStatus(), "x").ok());
}

}  // namespace
}  // namespace psgd
