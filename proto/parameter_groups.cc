#include "proto/parameter_groups.h"

#include "absl/strings/str_cat.h"
#include "common/glob.h"
#include "proto/parameter_match.h"

namespace psgd {

ParameterRates RatesOf(const OptimizerConfig& optimizer, const ParameterSpec& parameter) {
  ParameterRates rates;
  if (parameter.role() == ParameterSpec::STATISTIC) return rates;
  for (const ParameterGroup& group : optimizer.groups()) {
    if (!GlobMatches(group.match(), parameter.name())) continue;
    rates.rate = group.rate();
    if (group.has_weight_decay()) rates.weight_decay = group.weight_decay();
    return rates;
  }
  return rates;
}

absl::Status CheckGroups(absl::string_view key, const OptimizerConfig& optimizer,
                         const ModelSpec& model) {
  ModelSpec trained;  // groups leave statistics alone
  trained.set_name(model.name());
  for (const ParameterSpec& parameter : model.parameters()) {
    if (parameter.role() != ParameterSpec::STATISTIC) *trained.add_parameters() = parameter;
  }
  for (int i = 0; i < optimizer.groups_size(); ++i) {
    PSGD_RETURN_IF_ERROR(
        CheckMatch(absl::StrCat(key, "[", i, "].match"), optimizer.groups(i).match(), trained));
  }
  return absl::OkStatus();
}

}  // namespace psgd
