#include "client/kept_state.h"

#include "client/call_errors.h"
#include "common/program_state.h"

namespace psgd {

absl::Status KeptState::Ask() {
  if (!keeps_ || given_) return absl::OkStatus();
  wanted_ = true;
  absl::Status wants = absl::AbortedError("a checkpoint wants the program's state");
  wants.SetPayload(kWantsState, absl::Cord("1"));
  return wants;
}

absl::Status KeptState::Give(ByteSpan state) {
  if (!wanted_) {
    return OutOfOrder("no checkpoint wants a state now; give it when a call returns PSGD_SAVE");
  }
  if (state.size() > kMostProgramState) {
    return InvalidArgumentError("the program's state has ", state.size(), " bytes, and at most ",
                                kMostProgramState,
                                " go into a checkpoint; leave out what the program can make again, "
                                "or keep it in a file of its own");
  }
  given_ = Bytes::CopyOf(state);
  wanted_ = false;
  return absl::OkStatus();
}

void KeptState::Load(const std::map<uint32_t, Bytes>& saved, const std::string& run,
                     uint32_t worker) {
  loaded_ = JoinProgramState(saved);
  if (!loaded_->has_value() && saved.lower_bound(kProgramState) != saved.end()) {
    loaded_ = DataLossError(
        "the checkpoint that the run ", run,
        " goes on from has only a part of the state of "
        "worker ",
        worker,
        ": did that worker end while the checkpoint was taken? Go on from "
        "an earlier one (ps-ctl checkpoints RUN_DIR lists them): ps-run --resume RUN_DIR "
        "--checkpoint ID -- COMMAND");
  }
}

absl::StatusOr<const std::vector<std::byte>*> KeptState::loaded() const {
  PSGD_RETURN_IF_ERROR(loaded_.status());
  return loaded_->has_value() ? &**loaded_ : nullptr;
}

}  // namespace psgd
