#include "server/shard/shard_core.h"

#include <algorithm>
#include <new>
#include <type_traits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/program_state.h"
#include "compression/saved_state.h"
#include "proto/local_steps.h"
#include "server/shard/earlier_rules.h"
#include "server/shard/shard_order.h"

namespace psgd {

ShardCore::ShardCore(ShardOptions options)
    : options_(std::move(options)),
      synchronous_(options_.config.consistency().staleness() == 0),
      slices_(options_.shard, options_.config, options_.open_bytes),
      schedule_(options_.config),
      clocks_(options_.config, schedule_, cut_, &slices_, &members_),
      pulls_(options_.config, {options_.shard, options_.reply_bytes, options_.starts}, &slices_,
             {.slowest = [this] { return SlowestClock(); },
              .of =
                  [this](uint32_t worker) {
                    const Member& member = members_.at(worker);
                    // A late push counts as seen: its worker would wait for the next clock, which
                    // may wait for the worker.
                    return synchronous_ ? std::min(member.arrived_clock(), clocks_.completed())
                                        : member.clock();
                  },
              .ahead = [this](uint32_t local) { return clocks_.IsAhead(local); }}) {}

absl::Status ShardCore::Execute(const ShardCommand& command, Outbox* out, uint64_t number) {
  if (number != 0 && number <= last_order_) return absl::OkStatus();
  // Orders are sent again until they are written. A gap means that a machine lost power before
  // orders were on its disk.
  if (number > last_order_ + 1) {
    return DataLossError("shard ", options_.shard,
                         " has carried out the coordinator's orders up to ", last_order_, ", and ",
                         number,
                         " is the next that it is given: did its machine lose power? Go on from "
                         "the last checkpoint with ps-run --resume");
  }
  // The order's entry precedes its consequences, such as pulls that no longer wait.
  if (keeps_journal_ && !std::holds_alternative<InstallModel>(command)) {
    *journal_.emplace_back().head.mutable_order() = ToOrder(number, command);
  }
  PSGD_RETURN_IF_ERROR(Carry(command, out));
  if (number != 0) last_order_ = number;
  return absl::OkStatus();
}

absl::Status ShardCore::Carry(const ShardCommand& command, Outbox* out) {
  clocks_.LookAgain();
  absl::Status status = std::visit(
      [&](const auto& c) -> absl::Status {
        using C = std::decay_t<decltype(c)>;
        if constexpr (std::is_same_v<C, InstallModel>) {
          return Install(c);
        } else if constexpr (std::is_same_v<C, AdmitWorker>) {
          Admit(c);
        } else if constexpr (std::is_same_v<C, RemoveWorker>) {
          Remove(c);
        } else if constexpr (std::is_same_v<C, BeginSegment>) {
          Begin(c);
        } else if constexpr (std::is_same_v<C, TakeCheckpoint>) {
          StartCut(c);
        } else {
          schedule_.SetHyper(c.hyper);
        }
        return absl::OkStatus();
      },
      command);
  if (status.ok()) Settle(out);
  return status;
}

absl::Status ShardCore::Install(const InstallModel& command) {
  try {
    PSGD_RETURN_IF_ERROR(slices_.Install(command));
    clocks_.MeetSlices();
    schedule_.SetHyper(command.hyper);
    for (auto& [worker, member] : members_) {
      member.clear_slice_clocks();
      member.mutable_slice_clocks()->Resize(static_cast<int>(slices_.size()), 0);
      pulls_.Meet(worker);
    }
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    return ResourceExhaustedError("shard ", options_.shard,
                                  " has not enough memory for its part of the model; give the run "
                                  "more servers (cluster.servers), or one with more memory");
  }
}

void ShardCore::Admit(const AdmitWorker& command) {
  Member& member = AdmitMember(command.key, &members_);
  member.set_next_seq(1);
  member.mutable_slice_clocks()->Resize(static_cast<int>(slices_.size()), 0);
  pulls_.Meet(command.key.worker());
}

void ShardCore::Remove(const RemoveWorker& command) {
  const auto it = members_.find(command.key.worker());
  if (it == members_.end() || it->second.incarnation() != command.key.incarnation()) return;
  RemoveMember(command.key, &members_);
  pulls_.Forget(command.key.worker());
  if (cut_) cut_->Forget(command.key.worker());
}

void ShardCore::Begin(const BeginSegment& command) {
  BeginSegmentFor(command.segment, &members_);
  schedule_.Begin(command.segment, SlowestClock());
}

MemberClocks ShardCore::Clocks() const {
  return slices() == 0 ? MemberClocks() : ClocksOf(members_);
}

uint64_t ShardCore::SlowestClock() const {
  if (synchronous_) return clocks_.completed();
  uint64_t slowest = UINT64_MAX;
  for (const auto& [worker, member] : members_) {
    if (member.running()) slowest = std::min(slowest, member.clock());
  }
  return slowest == UINT64_MAX ? FastestClock() : slowest;
}

uint64_t ShardCore::FastestClock() const {
  uint64_t fastest = clocks_.completed();
  for (const auto& [worker, member] : members_) fastest = std::max(fastest, member.clock());
  return fastest;
}

std::vector<uint32_t> ShardCore::LateWorkers() const {
  std::vector<uint32_t> late;
  if (waiting_pulls() == 0) return late;
  const uint64_t slowest = SlowestClock();
  bool any_ahead = false;
  for (const auto& [worker, member] : members_) {
    if (!member.running()) continue;
    if (member.arrived_clock() > slowest) {
      any_ahead = true;
    } else {
      late.push_back(worker);
    }
  }
  // Otherwise the pulls wait for something else, as for a checkpoint.
  if (!any_ahead) late.clear();
  return late;
}

void ShardCore::OnMessage(PeerId from, Message message, Outbox* out) {
  Member* member = Find(message.header, from, out);
  if (member == nullptr) return;
  switch (message.header.body_case()) {
    case DataHeader::kHello: {
      Message welcome{ReplyHeader(message.header), {}};
      welcome.header.mutable_welcome()->set_next_seq(member->next_seq());
      welcome.header.mutable_welcome()->set_clock(member->clock());
      welcome.header.mutable_welcome()->set_probe(message.header.hello().probe());
      welcome.header.mutable_welcome()->set_life(pulls_.life());
      out->push_back({from, std::move(welcome)});
      return;
    }
    case DataHeader::kPush:
      OnPush(from, *member, std::move(message), out);
      break;
    case DataHeader::kPull:
      OnPull(from, message, out);
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
  if (it == members_.end() || header.incarnation() > it->second.incarnation()) {
    Refuse(from, header, Refusal::UNKNOWN_WORKER,
           absl::StrCat("worker ", header.worker(), " incarnation ", header.incarnation(),
                        " has not joined; was the server restarted?"),
           0, out);
    return nullptr;
  }
  if (header.incarnation() == it->second.incarnation() && !it->second.quarantined().empty()) {
    Refuse(
        from, header, Refusal::FENCED,
        absl::StrCat("worker ", header.worker(), " is in quarantine: ", it->second.quarantined()),
        0, out);
    return nullptr;
  }
  if (header.incarnation() < it->second.incarnation() || !it->second.live()) {
    Refuse(from, header, Refusal::FENCED,
           absl::StrCat("worker ", header.worker(), " incarnation ", header.incarnation(),
                        it->second.live() ? " was replaced" : " is out of the run"),
           0, out);
    return nullptr;
  }
  if (!has_model()) {
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
  ack.header.mutable_push_ack()->set_life(pulls_.life());
  out->push_back({to, std::move(ack)});
}

std::optional<ShardCut> ShardCore::TakeFinishedCut() {
  if (finished_.empty()) return std::nullopt;
  ShardCut cut = std::move(finished_.front());
  finished_.pop_front();
  return cut;
}

absl::Status ShardCore::CheckPush(const Member& member, const Push& push, size_t payloads) const {
  if (PayloadsOf(push) != payloads) {
    return InvalidArgumentError("parts of ", PayloadsOf(push), " payloads, but ", payloads,
                                " came");
  }
  if (!member.running()) {
    return absl::InvalidArgumentError("the worker is in no segment yet");
  }
  if (push.clock() != member.arrived_clock() + 1) {
    return InvalidArgumentError("a push for clock ", push.clock(), " where ",
                                member.arrived_clock() + 1, " is due");
  }
  std::vector<bool> seen(slices_.size());
  for (const PushPart& part : push.parts()) {
    const auto local = slices_.Local(part.slice());
    if (!local) {
      return InvalidArgumentError("slice ", part.slice(), " is not on shard ", options_.shard);
    }
    if (seen[*local] || member.slice_clocks(static_cast<int>(*local)) == push.clock()) {
      return InvalidArgumentError("slice ", part.slice(), " twice in clock ", push.clock());
    }
    seen[*local] = true;
    if (part.base_version() > slices_[*local].version) {
      return InvalidArgumentError("slice ", part.slice(), " has no version ", part.base_version(),
                                  " yet");
    }
  }
  return absl::OkStatus();
}

bool ShardCore::IsNext(PeerId from, const DataHeader& header, absl::string_view what, uint64_t seq,
                       const Member& member, Outbox* out) {
  if (seq == member.next_seq()) return true;
  if (seq < member.next_seq()) {
    ++stats_.duplicates;
    Acknowledge(from, header, member.next_seq(), out);
  } else {
    Refuse(from, header, Refusal::OUT_OF_ORDER,
           absl::StrCat(what, seq, " came before ", member.next_seq()), member.next_seq(), out);
  }
  return false;
}

void ShardCore::OnPush(PeerId from, Member& member, Message message, Outbox* out) {
  const DataHeader& header = message.header;
  const Push& push = header.push();
  if (!IsNext(from, header, "push ", push.seq(), member, out)) return;
  // The worker sends it again, to the copy that leads.
  if (pulls_.KnowsALaterLife(push)) return;
  // Before it is written: a replay does not know of lives.
  if (const std::string lost = pulls_.LostBase(push); !lost.empty()) {
    Refuse(from, header, Refusal::LOST, lost, member.next_seq(), out);
    return;
  }
  // Only a push that must wait may be refused. To refuse a push that the next clock or the cut
  // needs would make all workers wait for ever.
  const size_t waiting = held_bytes();
  // The next clock can do without it.
  const bool late = push.clock() < clocks_.next() && clocks_.MayClose();
  const bool waits =
      HoldsBack(cut_, push.clock()) || (synchronous_ && (late || push.clock() > clocks_.next()));
  if (waits && waiting > 0 && waiting + message.PayloadBytes() > options_.held_bytes) {
    Refuse(
        from, header, Refusal::OVERLOADED,
        absl::StrCat("the shard holds ", waiting, " bytes of pushes that wait for slower workers"),
        member.next_seq(), out);
    return;
  }
  WriteDown(message);
  member.set_next_seq(member.next_seq() + 1);
  if (!member.pushed()) {
    // A worker's first push carries the residuals that it loaded. A later incarnation must not push
    // them again.
    member.set_pushed(true);
    slices_.DropStates(header.worker());
  }
  absl::Status bad = CheckPush(member, push, message.payloads.size());
  std::vector<SharedPayload> opened;
  if (bad.ok()) {
    if (auto sound = slices_.Open(&message); sound.ok()) {
      opened = *std::move(sound);
    } else {
      bad = sound.status();
    }
  }
  const uint64_t clock = member.arrived_clock() + 1;
  const bool due = member.running() && push.clock() == clock;
  if (due && push.end_of_clock()) {
    member.set_arrived_clock(push.clock());
    clocks_.grace().LookAgain();
  }
  if (!bad.ok()) {
    const bool non_finite = bad.code() == absl::StatusCode::kOutOfRange;
    Refuse(from, header, non_finite ? Refusal::NON_FINITE : Refusal::MALFORMED,
           std::string(bad.message()), member.next_seq(), out);
    const int32_t most = options_.config.cluster().quarantine();
    if (auto worker = CountBadPush(header, clock, bad, most, &member)) {
      quarantined_.push_back(*std::move(worker));
    }
    if (!due) return;
    message.payloads.clear();
    message.header.mutable_push()->clear_parts();
    opened.clear();
  } else {
    ++stats_.pushes;
    for (const PushPart& part : push.parts()) {
      const uint32_t local = *slices_.Local(part.slice());
      member.set_slice_clocks(static_cast<int>(local), push.clock());
      stats_.push_staleness.Add(slices_[local].version - part.base_version());
    }
    CountSoundPush(push, &member);
    Acknowledge(from, header, member.next_seq(), out);
  }

  if (synchronous_) {
    clocks_.Add(std::move(message), std::move(opened));
  } else if (HoldsBack(cut_, push.clock())) {
    held_bytes_ += message.PayloadBytes();
    held_.push_back({header.worker(), header.incarnation(), clock, std::move(message)});
  } else {
    ApplyNow(member, pulls_.ShownTo(header.worker()), push, opened);
  }
}

void ShardCore::ApplyNow(Member& member, std::span<const ShownWeights> shown, const Push& push,
                         std::span<const SharedPayload> payloads) {
  const UpdateRates rates = payloads.empty() ? UpdateRates{} : schedule_.RatesAt(push.clock());
  uint64_t steps = 0;  // of all that push now
  uint64_t others = 0;
  for (const auto& [worker, other] : members_) {
    if (!other.running()) continue;
    steps += schedule_.StepsOf(worker, push.clock());
    others += worker != member.worker();
  }
  const uint32_t own = schedule_.StepsOf(member.worker(), push.clock());
  const float share = static_cast<float>(own) / static_cast<float>(std::max<uint64_t>(steps, own));
  // With local steps each push misses one push of every other worker, even if it is on time.
  const uint64_t usual_age = TakesLocalSteps(options_.config.local()) ? others : 0;
  slices_.Apply(push, payloads, share, usual_age, shown, rates);
  if (push.end_of_clock() && push.clock() == member.clock() + 1) member.set_clock(push.clock());
}

void ShardCore::Tick(Time now, Outbox* out) {
  if (clocks_.IsDue(now)) Close(out);
}

void ShardCore::Close(Outbox* out) {
  if (keeps_journal_) journal_.emplace_back().head.set_close(clocks_.next());
  clocks_.Close();
  Settle(out);
}

void ShardCore::ReleaseHeld() {
  std::deque<HeldPush> held;
  held.swap(held_);
  for (HeldPush& entry : held) {
    if (HoldsBack(cut_, entry.clock)) {
      held_.push_back(std::move(entry));
      continue;
    }
    held_bytes_ -= entry.message.PayloadBytes();
    auto opened = slices_.Open(&entry.message);
    auto member = members_.find(entry.worker);
    if (!opened.ok() || member == members_.end()) continue;
    if (member->second.incarnation() == entry.incarnation) {
      ApplyNow(member->second, pulls_.ShownTo(entry.worker), entry.message.header.push(), *opened);
    } else {
      // The push was acknowledged before its worker was replaced: it counts, but moves no clock.
      Member gone;
      ApplyNow(gone, {}, entry.message.header.push(), *opened);
    }
  }
}

void ShardCore::Settle(Outbox* out) {
  if (synchronous_) clocks_.Advance();
  while (ProgressCut()) {
    ReleaseHeld();
    if (synchronous_) clocks_.Advance();
  }
  for (const AnsweredPull& pull : pulls_.AnswerWaiting(out)) NoteAnswered(pull);
  pulls_.SendAhead(clocks_.TakeNewAhead(), out);
}

void ShardCore::OnPull(PeerId from, const Message& message, Outbox* out) {
  const auto answered = pulls_.Take(from, message.header, out);
  if (!answered.ok()) {
    Refuse(from, message.header, Refusal::MALFORMED, std::string(answered.status().message()), 0,
           out);
  } else if (*answered) {
    NoteAnswered(**answered);
  }
}

void ShardCore::NoteAnswered(const AnsweredPull& pull) {
  ++stats_.pulls;
  stats_.pull_staleness.Add(pull.staleness);
  if (pull.shown) WriteDown(*pull.shown);
}

namespace {

bool IsWorkerState(ByteSpan saved, size_t elements) {
  return elements == 0 ? saved.empty() : ReadSavedState(saved, elements).has_value();
}

}  // namespace

void ShardCore::StartCut(const TakeCheckpoint& command) {
  // A cut that is still open here failed on another shard and is given up. Pushes that only the old
  // cut held back must go on, or the new cut would wait for them for ever.
  cut_.emplace(command, slices_);
  ReleaseHeld();
}

void ShardCore::OnSaveState(PeerId from, Member& member, const Message& message, Outbox* out) {
  const DataHeader& header = message.header;
  const SaveState& save = header.save_state();
  if (!IsNext(from, header, "state ", save.seq(), member, out)) return;
  WriteDown(message);
  member.set_next_seq(member.next_seq() + 1);
  bool sound = static_cast<size_t>(save.slices_size()) == message.payloads.size();
  for (int i = 0; sound && i < save.slices_size(); ++i) {
    const uint32_t id = save.slices(i);
    const auto local = slices_.Local(id);
    sound = local ? IsWorkerState(message.payloads[i].span(), slices_[*local].weights.read().size())
                  : FitsProgramPart(id, message.payloads[i].size());
  }
  if (!sound) {
    Refuse(from, header, Refusal::MALFORMED, "saved state does not fit the slices",
           member.next_seq(), out);
  } else {
    Acknowledge(from, header, member.next_seq(), out);
  }
  if (save.checkpoint() == 0) {
    for (int i = 0; sound && i < save.slices_size(); ++i) {
      if (!IsProgramPart(save.slices(i))) continue;
      slices_.KeepProgramPart(header.worker(), save.slices(i), message.payloads[i]);
    }
    return;
  }
  if (!cut_ || !cut_->Saves(save.checkpoint(), header.worker())) return;
  for (int i = 0; sound && i < save.slices_size(); ++i) {
    cut_->Add(header.worker(), save.slices(i), message.payloads[i]);
  }
  if (save.last()) cut_->HasAllOf(header.worker());
}

bool ShardCore::ProgressCut() {
  if (!cut_ || !cut_->HasAllStates()) return false;
  if (synchronous_ && clocks_.completed() < cut_->clock()) return false;
  for (const auto& [worker, member] : members_) {
    if (member.running() && member.clock() < cut_->clock()) return false;
  }
  finished_.push_back(cut_->Finish(slices_));
  cut_.reset();
  clocks_.grace().LookAgain();
  return true;
}

void ShardCore::OnLoadState(PeerId from, const Message& message, Outbox* out) {
  const DataHeader& header = message.header;
  Message reply{ReplyHeader(header), {}};
  StateReply* body = reply.header.mutable_state_reply();
  body->set_request(header.load_state().request());
  const auto states = slices_.StatesOf(header.worker());
  body->set_total(static_cast<uint32_t>(states.size()));
  size_t bytes = 0;
  for (const auto& [id, state] : states) {
    const int there = body->slices_size();
    if (there == kMostParts || (there > 0 && bytes + state.size() > options_.state_reply_bytes)) {
      out->push_back({from, reply});
      body->clear_slices();
      reply.payloads.clear();
      bytes = 0;
    }
    bytes += state.size();
    body->add_slices(id);
    reply.payloads.push_back(state);
  }
  body->set_last(true);
  out->push_back({from, std::move(reply)});
}

void ShardCore::WriteDown(const Message& message) {
  if (!keeps_journal_) return;
  JournalEntry& entry = journal_.emplace_back();
  *entry.head.mutable_message() = message.header;
  entry.payloads = message.payloads;
}

void ShardCore::WriteDown(const WeightsShown& shown) {
  if (keeps_journal_) *journal_.emplace_back().head.mutable_shown() = shown;
}

absl::Status ShardCore::Replay(const JournalEntry& entry) {
  if (entry.earlier_rules) PSGD_RETURN_IF_ERROR(CheckEarlierRules(options_.config));
  Outbox nobody;
  pulls_.EndLife();  // who replays does not answer workers: a life of it has ended
  journal_.clear();
  switch (entry.head.step_case()) {
    case JournalHead::kOrder: {
      PSGD_ASSIGN_OR_RETURN(const ShardCommand command, FromOrder(entry.head.order()));
      PSGD_RETURN_IF_ERROR(Execute(command, &nobody, entry.head.order().number()));
      break;
    }
    case JournalHead::kMessage:
      OnMessage(0, {entry.head.message(), entry.payloads}, &nobody);
      break;
    case JournalHead::kShown:
      if (pulls_.Show(entry.head.shown())) WriteDown(entry.head.shown());
      break;
    case JournalHead::kClose:
      if (entry.head.close() == clocks_.next() && clocks_.MayClose()) Close(&nobody);
      break;
    case JournalHead::STEP_NOT_SET:
      break;
  }
  // The step must count again. If not, this is not the state in which it was made.
  if (journal_.empty()) {
    std::string why;
    for (const Outgoing& answer : nobody) {
      if (answer.message.header.has_refusal())
        absl::StrAppend(&why, ", refused: ", answer.message.header.refusal().ShortDebugString());
    }
    return DataLossError("an entry does not fit those before it: ", entry.head.ShortDebugString(),
                         why);
  }
  journal_.clear();
  return absl::OkStatus();
}

ShardImage ShardCore::MakeImage() const {
  ShardImage image;
  ShardRecord& record = image.record;
  record.set_last_order(last_order_);
  slices_.Save(&image);
  schedule_.Save(&record);
  clocks_.Save(&record);
  for (const auto& [worker, member] : members_) {
    MemberRecord* const saved = record.add_members();
    *saved = member;
    pulls_.SaveShown(worker, saved, &image.arrays);
  }
  record.set_pushes(stats_.pushes);
  record.set_pulls(stats_.pulls);
  for (const auto& [reason, count] : stats_.refused) (*record.mutable_refused())[reason] = count;
  return image;
}

absl::Status ShardCore::Restore(const ShardImage& image) {
  const ShardRecord& record = image.record;
  PSGD_RETURN_IF_ERROR(slices_.Restore(image));
  schedule_.Restore(record);
  last_order_ = record.last_order();
  for (const MemberRecord& member : record.members()) {
    PSGD_RETURN_IF_ERROR(RestoreMember(member, image));
  }
  PSGD_RETURN_IF_ERROR(clocks_.Restore(record));
  stats_.pushes = record.pushes();
  stats_.pulls = record.pulls();
  stats_.refused.insert(record.refused().begin(), record.refused().end());
  return absl::OkStatus();
}

absl::Status ShardCore::RestoreMember(const MemberRecord& record, const ShardImage& image) {
  const auto slices = static_cast<int>(slices_.size());
  if (record.slice_clocks_size() != slices ||
      (record.shown_versions_size() != slices && record.shown_versions_size() != 0)) {
    return DataLossError("worker ", record.worker(), " is remembered with ",
                         record.slice_clocks_size(), " of ", slices, " slices");
  }
  Member& member = members_[record.worker()] = record;
  member.clear_shown_versions();
  if (!member.live()) return absl::OkStatus();
  pulls_.Meet(record.worker());
  pulls_.RestoreShown(record, image.arrays);
  return absl::OkStatus();
}

}  // namespace psgd
