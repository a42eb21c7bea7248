#include "experiment/launch/hyper_assignments.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/suggest.h"

namespace psgd {

absl::StatusOr<SetHyperRequest> ParseAssignments(const std::vector<std::string>& assignments) {
  SetHyperRequest request;
  for (const std::string& assignment : assignments) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(assignment, absl::MaxSplits('=', 1));
    double value = 0;
    if (!absl::SimpleAtod(parts.second, &value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", assignment, "\" is not KEY=NUMBER, as learning_rate=0.01"));
    }
    if (parts.first == "learning_rate") {
      request.set_set_learning_rate(true);
      request.mutable_hyper()->set_learning_rate(value);
    } else if (parts.first == "weight_decay") {
      request.set_set_weight_decay(true);
      request.mutable_hyper()->set_weight_decay(value);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", parts.first, "\" cannot be changed while a run goes on",
                       Suggest(parts.first, {"learning_rate", "weight_decay"}),
                       " (learning_rate and weight_decay can)"));
    }
  }
  return request;
}

}  // namespace psgd
