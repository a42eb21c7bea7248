#include "server/shard/quarantine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace psgd {

void CountSoundPush(const Push& push, MemberRecord* member) {
  // A sound message does not make up for a bad one of the same clock, and an empty clock counts for
  // nothing.
  if (!push.end_of_clock() || member->bad_clock() == push.clock()) return;
  const bool pushed =
      std::ranges::find(member->slice_clocks(), push.clock()) != member->slice_clocks().end();
  if (pushed) member->set_bad_in_row(0);
}

std::optional<QuarantinedWorker> CountBadPush(const DataHeader& header, uint64_t clock,
                                              const absl::Status& bad, int32_t most,
                                              MemberRecord* member) {
  member->set_bad_in_row(member->bad_in_row() + 1);
  member->set_bad_clock(clock);
  if (most == 0 || member->bad_in_row() < most) return std::nullopt;
  member->set_quarantined(
      absl::StrCat(member->bad_in_row(), " of its pushes to shard ", header.shard(),
                   " were refused (cluster.quarantine) and no clock's were all sound between them, "
                   "the last one: ",
                   bad.message(), "; look at its machine and at the learning rate"));
  QuarantinedWorker worker;
  worker.key.set_worker(header.worker());
  worker.key.set_incarnation(header.incarnation());
  worker.why = member->quarantined();
  worker.not_finite = absl::IsOutOfRange(bad);
  return worker;
}

}  // namespace psgd
