#include "proto/parameter_match.h"

#include <string>
#include <vector>

#include "common/glob.h"
#include "common/suggest.h"

namespace psgd {

absl::Status CheckMatch(absl::string_view key, absl::string_view glob, const ModelSpec& model) {
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : model.parameters()) {
    if (GlobMatches(glob, parameter.name())) return absl::OkStatus();
    names.push_back(parameter.name());
  }
  return InvalidArgumentError(key, " \"", glob, "\" fits no parameter of ", model.name(),
                              ", whose first is ", names.empty() ? "" : names[0],
                              Suggest(glob, names));
}

}  // namespace psgd
