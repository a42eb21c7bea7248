#include "server/shard_core.h"

#include <algorithm>
#include <new>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/schedule.h"
#include "server/shard_order.h"

namespace psgd {

ShardCore::ShardCore(ShardOptions options)
    : options_(std::move(options)),
      synchronous_(options_.config.consistency().staleness() == 0),
      unbounded_(options_.config.consistency().staleness() < 0),
      weights_encoder_(options_.config, options_.starts) {}

absl::Status ShardCore::Execute(const ShardCommand& command, Outbox* out, uint64_t number) {
  if (number != 0 && number <= last_order_) return absl::OkStatus();
  // Orders are given again until they are written down, unless a machine lost power before they were on the disk.
  if (number > last_order_ + 1) {
    return absl::DataLossError(absl::StrCat(
        "shard ", options_.shard, " has carried out the coordinator's orders up to ", last_order_, ", and ", number,
        " is the next that it is given: did its machine lose power? Go on from the last checkpoint with ps-run --resume"));
  }
  // Before what follows from it, such as pulls that need no longer wait.
  if (keeps_journal_ && !std::holds_alternative<InstallModel>(command)) {
    JournalEntry entry;
    *entry.head.mutable_order() = ToOrderForShard(number, command);
    journal_.push_back(std::move(entry));
  }
  PSGD_RETURN_IF_ERROR(Carry(command, out));
  if (number != 0) last_order_ = number;
  return absl::OkStatus();
}

absl::Status ShardCore::Carry(const ShardCommand& command, Outbox* out) {
  absl::Status status = std::visit(
      [&](const auto& c) -> absl::Status {
        using C = std::decay_t<decltype(c)>;
        if constexpr (std::is_same_v<C, InstallModel>) {
          return Install(c);
        } else if constexpr (std::is_same_v<C, AdmitWorker>) {
          Admit(c);
        } else if constexpr (std::is_same_v<C, RemoveWorker>) {
          Remove(c, out);
        } else if constexpr (std::is_same_v<C, BeginSegment>) {
          Begin(c);
        } else if constexpr (std::is_same_v<C, TakeCheckpoint>) {
          StartCut(c);
        } else {
          hyper_ = c.hyper;
        }
        return absl::OkStatus();
      },
      command);
  if (status.ok()) Settle(out);
  return status;
}

absl::Status ShardCore::Install(const InstallModel& command) {
  try {
    return MakeSlices(command);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "shard ", options_.shard, " has not enough memory for its part of the model; give the run more servers "
        "(cluster.servers), or one with more memory"));
  }
}

absl::Status ShardCore::MakeSlices(const InstallModel& command) {
  // All or nothing: after a failure the shard still has no model.
  auto updater = std::make_unique<SliceUpdater>(options_.config);
  std::vector<SliceState> slices;
  std::vector<int64_t> local(command.placement->slices_size(), -1);
  for (int id = 0; id < command.placement->slices_size(); ++id) {
    const SliceSpec& spec = command.placement->slices(id);
    if (spec.shard() != options_.shard) continue;
    PSGD_ASSIGN_OR_RETURN(
        SliceState slice,
        updater->Make(id, spec, *command.model, options_.config.seed(), command.checkpoint.get(),
                      command.given.get()));
    local[id] = static_cast<int64_t>(slices.size());
    slices.push_back(std::move(slice));
  }
  hyper_ = command.hyper;
  model_ = command.model;
  placement_ = command.placement;
  slices_ = std::move(slices);
  local_ = std::move(local);
  updater_ = std::move(updater);
  for (auto& [worker, member] : members_) {
    member.slice_clock.assign(slices_.size(), 0);
    member.pulled.assign(slices_.size(), {});
    member.sent = std::vector<SentWeights>(slices_.size());
  }
  return absl::OkStatus();
}

void ShardCore::Admit(const AdmitWorker& command) {
  Member member;
  member.incarnation = command.key.incarnation();
  member.live = true;
  member.slice_clock.assign(slices_.size(), 0);
  member.pulled.assign(slices_.size(), {});
  member.sent = std::vector<SentWeights>(slices_.size());
  members_[command.key.worker()] = std::move(member);
}

void ShardCore::Remove(const RemoveWorker& command, Outbox* out) {
  auto it = members_.find(command.key.worker());
  if (it == members_.end() || it->second.incarnation != command.key.incarnation()) return;
  it->second.live = false;
  it->second.running = false;
  it->second.pulled.clear();
  it->second.sent.clear();
  if (cut_) cut_->saved.erase(command.key.worker());
  std::erase_if(waiting_, [&](const WaitingPull& pull) {
    return pull.key.worker() == command.key.worker();
  });
}

void ShardCore::Begin(const BeginSegment& command) {
  const Segment& segment = command.segment;
  Segment& kept = segments_[segment.first_clock()] = segment;
  kept.clear_batches();
  for (uint32_t worker : segment.workers()) {
    auto it = members_.find(worker);
    if (it == members_.end() || !it->second.live || it->second.running) continue;
    Member& member = it->second;
    member.running = true;
    member.first_clock = member.clock = member.arrived_clock = segment.first_clock();
  }
  // Segments that every running worker has left behind.
  const uint64_t slowest = SlowestClock();
  while (segments_.size() > 1 && std::next(segments_.begin())->first <= slowest) {
    segments_.erase(segments_.begin());
  }
}

uint64_t ShardCore::SlowestClock() const {
  if (synchronous_) return completed_;
  uint64_t slowest = UINT64_MAX;
  for (const auto& [worker, member] : members_) {
    if (member.running) slowest = std::min(slowest, member.clock);
  }
  return slowest == UINT64_MAX ? FastestClock() : slowest;
}

uint64_t ShardCore::FastestClock() const {
  uint64_t fastest = completed_;
  for (const auto& [worker, member] : members_) fastest = std::max(fastest, member.clock);
  return fastest;
}

uint64_t ShardCore::weight_bytes() const {
  uint64_t bytes = 0;
  for (const SliceState& slice : slices_) bytes += slice.weights.read().size_bytes();
  return bytes;
}

std::vector<std::pair<uint32_t, Bytes>> ShardCore::ShareWeights() const {
  std::vector<std::pair<uint32_t, Bytes>> shared;
  shared.reserve(slices_.size());
  for (const SliceState& slice : slices_) shared.emplace_back(slice.id, slice.weights.Share());
  return shared;
}

void ShardCore::OnMessage(PeerId from, Message message, Outbox* out) {
  Member* member = Find(message.header, from, out);
  if (member == nullptr) return;
  switch (message.header.body_case()) {
    case DataHeader::kHello: {
      Message welcome{ReplyHeader(message.header), {}};
      welcome.header.mutable_welcome()->set_next_seq(member->next_seq);
      welcome.header.mutable_welcome()->set_clock(member->clock);
      welcome.header.mutable_welcome()->set_probe(message.header.hello().probe());
      out->push_back({from, std::move(welcome)});
      return;
    }
    case DataHeader::kPush:
      OnPush(from, *member, std::move(message), out);
      break;
    case DataHeader::kPull:
      OnPull(from, *member, message, out);
      return;
    case DataHeader::kSaveState:
      OnSaveState(from, *member, message, out);
      break;
    case DataHeader::kLoadState:
      OnLoadState(from, message, out);
      return;
    default:
      Refuse(from, message.header, Refusal::MALFORMED, "a worker does not send such a message", 0,
             out);
      return;
  }
  Settle(out);
}

ShardCore::Member* ShardCore::Find(const DataHeader& header, PeerId from, Outbox* out) {
  if (header.shard() != options_.shard) {
    Refuse(from, header, Refusal::MALFORMED,
           absl::StrCat("this is shard ", options_.shard, ", not ", header.shard()), 0, out);
    return nullptr;
  }
  auto it = members_.find(header.worker());
  if (it == members_.end() || header.incarnation() > it->second.incarnation) {
    Refuse(from, header, Refusal::UNKNOWN_WORKER,
           absl::StrCat("worker ", header.worker(), " incarnation ", header.incarnation(),
                        " has not joined; was the server restarted?"),
           0, out);
    return nullptr;
  }
  if (header.incarnation() == it->second.incarnation && !it->second.quarantined.empty()) {
    Refuse(from, header, Refusal::FENCED,
           absl::StrCat("worker ", header.worker(), " is in quarantine: ", it->second.quarantined), 0,
           out);
    return nullptr;
  }
  if (header.incarnation() < it->second.incarnation || !it->second.live) {
    Refuse(from, header, Refusal::FENCED,
           absl::StrCat("worker ", header.worker(), " incarnation ", header.incarnation(),
                        it->second.live ? " was replaced" : " is out of the run"),
           0, out);
    return nullptr;
  }
  if (slices_.empty() && local_.empty()) {
    Refuse(from, header, Refusal::NOT_READY, "the shard has no model yet", 0, out);
    return nullptr;
  }
  return &it->second;
}

DataHeader ShardCore::ReplyHeader(const DataHeader& about) const {
  DataHeader header;
  header.set_worker(about.worker());
  header.set_incarnation(about.incarnation());
  header.set_shard(options_.shard);
  return header;
}

void ShardCore::Refuse(PeerId to, const DataHeader& about, Refusal::Reason reason,
                       const std::string& detail, uint64_t next_seq, Outbox* out) {
  ++stats_.refused[absl::AsciiStrToLower(Refusal::Reason_Name(reason))];
  Message refusal{ReplyHeader(about), {}};
  Refusal* body = refusal.header.mutable_refusal();
  body->set_reason(reason);
  body->set_detail(detail);
  body->set_next_seq(next_seq);
  if (about.has_pull()) body->set_request(about.pull().request());
  out->push_back({to, std::move(refusal)});
}

void ShardCore::Acknowledge(PeerId to, const DataHeader& about, uint64_t next_seq,
                            Outbox* out) const {
  Message ack{ReplyHeader(about), {}};
  ack.header.mutable_push_ack()->set_next_seq(next_seq);
  out->push_back({to, std::move(ack)});
}

std::optional<uint32_t> ShardCore::Local(uint32_t slice) const {
  if (slice >= local_.size() || local_[slice] < 0) return std::nullopt;
  return static_cast<uint32_t>(local_[slice]);
}

std::optional<ShardCut> ShardCore::TakeFinishedCut() {
  if (finished_.empty()) return std::nullopt;
  ShardCut cut = std::move(finished_.front());
  finished_.pop_front();
  return cut;
}

}  // namespace psgd
