// The part of ShardCore that takes consistent cuts, and keeps the workers' own state in them.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "compression/saved_state.h"
#include "server/shard_core.h"

namespace psgd {
namespace {

bool IsWorkerState(ByteSpan saved, size_t elements) {
  return elements == 0 ? saved.empty() : ReadSavedState(saved, elements).has_value();
}

}  // namespace

void ShardCore::StartCut(const TakeCheckpoint& command) {
  // A cut that is still open here failed on another shard and is given up: what it held back and the
  // new one does not must go on, or the new one would wait for it for ever.
  Cut cut;
  cut.id = command.id;
  cut.clock = command.clock;
  std::set<uint32_t> savers;
  for (const WorkerKey& key : command.savers) {
    cut.saved[key.worker()] = false;
    savers.insert(key.worker());
  }
  // Now: one that joins behind the cut may push what it was handed before the cut is complete.
  AddUnclaimed(savers, &cut.snapshot);
  cut_ = std::move(cut);  // not emplace(): Clang 14 cannot default-construct a nested class from there
  ReleaseHeld();
}

void ShardCore::OnSaveState(PeerId from, Member& member, const Message& message, Outbox* out) {
  const DataHeader& header = message.header;
  const SaveState& save = header.save_state();
  if (save.seq() < member.next_seq) {
    ++stats_.duplicates;
    Acknowledge(from, header, member.next_seq, out);
    return;
  }
  if (save.seq() > member.next_seq) {
    Refuse(from, header, Refusal::OUT_OF_ORDER,
           absl::StrCat("state ", save.seq(), " came before ", member.next_seq), member.next_seq,
           out);
    return;
  }
  if (keeps_journal_) WriteDown(message);
  ++member.next_seq;
  bool sound = static_cast<size_t>(save.slices_size()) == message.payloads.size();
  for (int i = 0; sound && i < save.slices_size(); ++i) {
    const auto local = Local(save.slices(i));
    sound = local &&
            IsWorkerState(message.payloads[i].span(), slices_[*local].weights.read().size());
  }
  if (!sound) {
    Refuse(from, header, Refusal::MALFORMED, "saved state does not fit the slices", member.next_seq,
           out);
  } else {
    Acknowledge(from, header, member.next_seq, out);
  }
  if (!cut_ || cut_->id != save.checkpoint() || !cut_->saved.count(header.worker())) return;
  for (int i = 0; sound && i < save.slices_size(); ++i) {
    cut_->snapshot.residuals[header.worker()].emplace_back(save.slices(i), message.payloads[i]);
  }
  if (save.last()) cut_->saved[header.worker()] = true;
}

bool ShardCore::ProgressCut() {
  if (!cut_) return false;
  for (const auto& [worker, saved] : cut_->saved) {
    if (!saved) return false;
  }
  if (synchronous_ ? completed_ < cut_->clock : false) return false;
  for (const auto& [worker, member] : members_) {
    if (member.running && member.clock < cut_->clock) return false;
  }
  for (const SliceState& slice : slices_) cut_->snapshot.slices.push_back(updater_->Snapshot(slice));
  // Of savers that ended before they pushed.
  std::set<uint32_t> saved;
  for (const auto& [worker, states] : cut_->snapshot.residuals) saved.insert(worker);
  AddUnclaimed(saved, &cut_->snapshot);
  for (const auto& [worker, member] : members_) {
    WorkerMark& mark = cut_->snapshot.workers[worker];
    mark.set_incarnation(member.incarnation);
    mark.set_next_seq(member.next_seq);
    mark.set_clock(member.clock);
  }
  finished_.push_back({cut_->id, std::move(cut_->snapshot)});
  cut_.reset();
  return true;
}

void ShardCore::AddUnclaimed(const std::set<uint32_t>& but, ShardSnapshot* snapshot) const {
  for (const SliceState& slice : slices_) {
    for (const auto& [worker, state] : slice.resumed_residuals) {
      if (!but.contains(worker)) snapshot->residuals[worker].emplace_back(slice.id, state);
    }
  }
}

void ShardCore::OnLoadState(PeerId from, const Message& message, Outbox* out) {
  const DataHeader& header = message.header;
  Message reply{ReplyHeader(header), {}};
  StateReply* body = reply.header.mutable_state_reply();
  body->set_request(header.load_state().request());
  body->set_total(static_cast<uint32_t>(
      std::count_if(slices_.begin(), slices_.end(), [&](const SliceState& slice) {
        return slice.resumed_residuals.count(header.worker()) > 0;
      })));
  size_t bytes = 0;
  for (const SliceState& slice : slices_) {
    auto found = slice.resumed_residuals.find(header.worker());
    if (found == slice.resumed_residuals.end()) continue;
    const Bytes& residual = found->second;
    if (bytes > 0 && bytes + residual.size() > options_.reply_bytes) {
      out->push_back({from, reply});
      body->clear_slices();
      reply.payloads.clear();
      bytes = 0;
    }
    bytes += residual.size();
    body->add_slices(slice.id);
    reply.payloads.push_back(residual);
  }
  body->set_last(true);
  out->push_back({from, std::move(reply)});
}

}  // namespace psgd
