#include "experiment/launch/status_notes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/control/server_shares.h"

namespace psgd {

void StatusNotes::Show(const StatusReply& status,
                       const std::vector<std::unique_ptr<ChildProcess>>& started, bool stopping) {
  for (const WorkerStatus& worker : status.workers()) {
    if (!worker.live() || !known_.insert(worker.name()).second) continue;
    const bool by_hand = std::ranges::none_of(
        started, [&](const auto& child) { return child->name() == worker.name(); });
    if (by_hand) display_->Note(absl::StrCat("worker ", worker.name(), " joined"));
  }
  const std::string& checkpoint = status.failed_checkpoint();
  ShowTrouble(status.waits_for(), &waits_for_);
  ShowTrouble(checkpoint.empty() ? "" : absl::StrCat("could not be written: ", checkpoint),
              &failed_checkpoint_);
  ShowTrouble(stopping ? StopWaitsFor(status) : "", &stop_waits_);
  if (!of_programs_) return;
  for (const std::string& note : status.total().notes()) {
    if (noted_.insert(note).second) display_->Note("note: " + note);
  }
}

void StatusNotes::ShowTrouble(const std::string& trouble, std::string* shown) {
  if (!trouble.empty() && *shown != trouble) display_->Note(trouble, /*important=*/true);
  *shown = trouble;
}

}  // namespace psgd
