#include "worker/give_residual.h"

#include <cmath>
#include <set>
#include <vector>

namespace psgd {

absl::StatusOr<GivenResidual> GiveResidual(uint64_t clock, UpdateEncoder* encoder, WorkerCore* core,
                                           Session* session) {
  PSGD_ASSIGN_OR_RETURN(const std::vector<FlushedSlice> flushed, encoder->Flush());
  double squares = 0;
  for (const FlushedSlice& slice : flushed) {
    squares += slice.squared_norm;
    session->Push(clock, slice.encoded);
  }
  core->GaveResidual(!flushed.empty(), SteadyNow());
  GivenResidual given;
  given.any = !flushed.empty();
  given.pushed = session->WaitUntil([core] { return core->Advance(SteadyNow()); });
  const std::vector<uint32_t> in_doubt = core->session().SlicesInDoubt(clock);
  const std::set<uint32_t> lost(in_doubt.begin(), in_doubt.end());
  double left = 0;
  for (const FlushedSlice& slice : flushed) {
    if (lost.contains(slice.encoded.slice)) left += slice.squared_norm;
  }
  given.norm = std::sqrt(squares);
  given.norm_left = std::sqrt(left);
  return given;
}

}  // namespace psgd
