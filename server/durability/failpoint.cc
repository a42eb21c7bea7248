#include "server/durability/failpoint.h"

#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "common/suggest.h"

namespace psgd {

void FailpointPlan::Reach(Failpoint point) {
  if (point != point_ || left_.fetch_sub(1) != 1) return;
  kill(getpid(), SIGKILL);
  while (true) pause();  // until the signal arrives
}

absl::StatusOr<std::pair<Failpoint, uint64_t>> ParseFailpoint(absl::string_view text) {
  const size_t equals = text.find('=');
  const absl::string_view name = text.substr(0, equals);
  uint64_t count = 1;
  if (equals != absl::string_view::npos &&
      (!absl::SimpleAtoi(text.substr(equals + 1), &count) || count == 0)) {
    return InvalidArgumentError("--failpoint ", text, ": how often is a number from 1, as in ",
                                name, "=2");
  }
  std::vector<std::string> names;
  for (const auto& [point, known] : kFailpointNames) {
    if (name == known) return std::pair(point, count);
    names.emplace_back(known);
  }
  return InvalidArgumentError("--failpoint ", text, ": no such point",
                              Suggest(std::string(name), names),
                              " (there are: ", absl::StrJoin(names, ", "), ")");
}

}  // namespace psgd
