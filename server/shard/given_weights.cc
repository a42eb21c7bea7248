#include "server/shard/given_weights.h"

#include <span>

#include "common/bytes.h"
#include "server/shard/placement.h"

namespace psgd {

absl::Status CheckGiven(const ModelSpec& model, const GivenWeights& given) {
  for (const ParameterSpec& parameter : model.parameters()) {
    if (!parameter.initializer().has_given()) continue;
    const auto found = given.find(parameter.name());
    const bool same = found != given.end() && found->second.size() == ElementsOf(parameter) &&
                      ChecksumOf(std::as_bytes(std::span(found->second))) ==
                          parameter.initializer().given().checksum();
    if (same) continue;
    return FailedPreconditionError("the worker starts ", parameter.name(), " from ",
                                   found == given.end()
                                       ? "values that the server's file of the model lacks"
                                       : "other values than the server's file of the model has",
                                   "; give all machines the same file");
  }
  return absl::OkStatus();
}

}  // namespace psgd
