#include "proto/short_clocks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/local_steps.h"

namespace psgd {

std::string ShortClocksText(const LocalConfig& local, uint64_t batches_per_epoch,
                            uint64_t workers) {
  workers = std::max<uint64_t>(1, workers);
  const uint64_t share = (batches_per_epoch + workers - 1) / workers;
  const uint64_t of_clock = StepsOfClock(local);
  if (!TakesLocalSteps(local) || of_clock <= share) return "";
  const std::string key = local.steps() == 0 ? "local.most" : "local.steps";
  std::string text = absl::StrCat(key, " is ", StepsBetweenExchanges(local));
  if (local.fragments() > 1) {
    absl::StrAppend(&text, " in ", local.fragments(), " fragments, so a clock has ", of_clock,
                    " steps");
  }
  absl::StrAppend(&text, ", and an epoch has ", share, share == 1 ? " batch" : " batches",
                  workers == 1 ? " for the worker" : " for each worker",
                  ": a clock ends with the epoch, so workers exchange after ", share,
                  share == 1 ? " step" : " steps");
  if (local.delay() > 0) {
    absl::StrAppend(&text, ", and a local.delay of ", local.delay(), " lasts ",
                    static_cast<uint64_t>(local.delay()) * share / of_clock);
  }
  return absl::StrCat(text, "; set ", key, " to ",
                      share * static_cast<uint64_t>(std::max(1, local.fragments())),
                      " or less, or lower data.batch");
}

}  // namespace psgd
