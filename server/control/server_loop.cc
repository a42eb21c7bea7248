#include "server/control/server_loop.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/random_id.h"
#include "server/durability/shard_parts.h"
#include "server/shard/shard_order.h"

namespace psgd {
namespace {

constexpr int kTicksPerPatience = 20;
constexpr char kRecordFile[] = "/server";
constexpr size_t kLongestRecord = 4096;

// Whether a copy is written off before the run's leader would write off its server.
Duration SilenceOfCopies(Duration patience) { return patience / 2; }

}  // namespace

ServerLoop::ServerLoop(ServerLoopOptions options)
    : options_(std::move(options)),
      checkpoints_(options_.checkpoint_dir),
      guard_(nullptr, options_.log),
      told_leader_(options_.leader) {}

absl::StatusOr<std::unique_ptr<ServerLoop>> ServerLoop::Start(ServerLoopOptions options) {
  std::unique_ptr<ServerLoop> loop(new ServerLoop(std::move(options)));
  PSGD_RETURN_IF_ERROR(loop->Open());
  return loop;
}

absl::Status ServerLoop::Open() {
  ServerCoreOptions core = options_.core;
  ServerRecord record;
  const std::string file = options_.copies.journal_dir + kRecordFile;
  if (std::filesystem::exists(file)) {
    PSGD_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(file, kLongestRecord));
    if (!record.ParseFromString(text)) {
      return absl::DataLossError(absl::StrCat(file, " does not say which server this is"));
    }
  } else {
    record.set_identity(RandomId());
  }
  if (core.begins) record.set_run_id(core.run_id);
  core.run_id = run_id_ = record.run_id();
  core.self.set_identity(record.identity());
  core.self.set_name(options_.name);
  core.may_lead = options_.store != nullptr;
  PSGD_RETURN_IF_ERROR(WriteFileAtomically(file, record.SerializeAsString()));

  CopySetOptions copies = options_.copies;
  copies.run_id = options_.core.run_id;
  copies.silence = SilenceOfCopies(core.leader.patience);
  copies.callbacks = Callbacks();
  PSGD_ASSIGN_OR_RETURN(copies_, CopySet::Open(std::move(copies)));
  core.on_disk = copies_->shards();
  core_ = std::make_unique<ServerCore>(std::move(core));

  RunLinkOptions link;
  link.name = options_.name;
  link.credentials = options_.copies.credentials;
  link.patience = kPeerPatience;
  link.retry = kPeerRetry;
  link.events = LinkEvents();
  run_link_ = std::make_unique<RunLink>(std::move(link));
  Post([this](Time now, ServerEffects* effects) { core_->Start(now, effects); });
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

ServerLoop::~ServerLoop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (auto& [request, promise] : asked_) {
      promise.set_value(absl::UnavailableError("the server ends"));
    }
    asked_.clear();
    for (auto& [link, to] : links_) to.stream->End();
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  run_link_.reset();
  if (copies_ != nullptr) copies_->Stop();
}

void ServerLoop::Post(Event event) {
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  events_.push_back(std::move(event));
  changed_.notify_all();
}

void ServerLoop::Run() {
  const Duration tick = options_.core.leader.patience / kTicksPerPatience;
  Time next_tick{};
  while (true) {
    std::deque<Event> events;
    {
      std::unique_lock lock(mutex_);
      const Time now = SteadyNow();
      changed_.wait_for(lock, std::max(Duration(0), next_tick - now),
                        [&] { return stopping_ || !events_.empty(); });
      if (stopping_) return;
      events.swap(events_);
    }
    if (SteadyNow() >= next_tick) {
      next_tick = SteadyNow() + tick;
      events.push_back([this](Time now, ServerEffects* effects) { core_->Tick(now, effects); });
    }
    for (const Event& event : events) {
      ServerEffects effects;
      event(SteadyNow(), &effects);
      CarryOut(std::move(effects));
    }
  }
}

void ServerLoop::CarryOut(ServerEffects effects) {
  for (const ServerEffect& effect : effects) {
    std::visit([this](const auto& what) { Do(what); }, effect);
  }
  if (core_->holder().run_id() != run_id_) SaveIdentity(core_->holder().run_id());
  const bool leads = core_->leader() != nullptr;
  const std::string& known = core_->leader_address();
  run_link_->SetLeader(leads ? "" : known.empty() ? told_leader_ : known);
  if (leads && !led_) {
    for (const auto& [shard, cut] : cuts_) GiveCut(shard);
  }
  led_ = leads;
}

void ServerLoop::SaveIdentity(const std::string& run_id) {
  ServerRecord record;
  record.set_identity(core_->holder().self().identity());
  record.set_run_id(run_id);
  const std::string file = options_.copies.journal_dir + kRecordFile;
  const absl::Status saved = WriteFileAtomically(file, record.SerializeAsString());
  if (saved.ok()) {
    run_id_ = run_id;
  } else {
    options_.log->error("{}", saved.ToString());
  }
}

absl::StatusOr<ControlReply> ServerLoop::Ask(ControlRequest request) {
  std::future<absl::StatusOr<ControlReply>> answer;
  uint64_t number = 0;
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || ended_) return absl::UnavailableError("the server ends");
    number = next_request_++;
    answer = asked_[number].get_future();
  }
  Post([this, number, request = std::move(request)](Time now, ServerEffects* effects) {
    core_->OnRequest(number, request, now, effects);
  });
  return answer.get();
}

void ServerLoop::Leave() {
  Post([this](Time, ServerEffects*) { core_->Leave(); });
}

std::optional<absl::Status> ServerLoop::WaitEnded(Duration timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [&] { return ended_.has_value(); });
  return ended_;
}

// --- Copies on this server

CopyCallbacks ServerLoop::Callbacks() {
  CopyCallbacks callbacks;
  callbacks.on_state = [this](CopyState state) {
    Post([this, state = std::move(state)](Time now, ServerEffects* effects) {
      core_->OnCopy(state, now, effects);
    });
  };
  callbacks.on_order = [this](uint32_t shard, uint64_t epoch, CopyCore::OrderDone done) {
    Post([this, shard, epoch, done = std::move(done)](Time now, ServerEffects* effects) {
      if (core_->leader() == nullptr) return TellOrder(shard, epoch, done);
      core_->OnOrderDone(shard, epoch, done.number, done.status, now, effects);
    });
  };
  callbacks.on_cut = [this](uint32_t shard, ShardCut cut) {
    auto kept = std::make_shared<const ShardCut>(std::move(cut));
    Post([this, shard, kept = std::move(kept)](Time, ServerEffects*) {
      cuts_[shard] = kept;
      GiveCut(shard);
    });
  };
  callbacks.on_quarantine = [this](const QuarantinedWorker& worker) {
    Post([this, worker](Time now, ServerEffects* effects) {
      if (core_->leader() != nullptr) {
        return core_->OnQuarantined(worker.key, worker.why, now, effects);
      }
      ServerSays says;
      *says.mutable_quarantined()->mutable_key() = worker.key;
      says.mutable_quarantined()->set_why(worker.why);
      run_link_->Send(std::move(says));
    });
  };
  callbacks.on_image = [this](uint32_t shard, ShardImage image) {
    auto due = std::make_shared<const ShardImage>(std::move(image));
    Post([this, shard, due = std::move(due)](Time, ServerEffects*) { SaveImage(shard, due); });
  };
  if (options_.failpoint != nullptr) {
    callbacks.on_sent = [plan = options_.failpoint] { plan->Reach(Failpoint::kAnswersSent); };
  }
  return callbacks;
}

void ServerLoop::SaveImage(uint32_t shard, std::shared_ptr<const ShardImage> image) {
  disk_.Post([this, shard, image = std::move(image)] {
    const absl::Status saved = copies_->SaveImage(shard, *image);
    if (!saved.ok()) {
      options_.log->error("shard {}: its journal grows, since no image of it can be written: {}",
                          shard, saved.ToString());
    }
    return true;
  });
}

void ServerLoop::Do(const effect::HaveCopy& have) {
  if (have.copy.epoch() == 0) return;  // it is settled later what becomes of it
  const absl::Status had = copies_->Have(have.copy, core_->holder().self().server());
  if (!had.ok()) options_.log->error("shard {}: {}", have.copy.shard(), had.ToString());
}

void ServerLoop::Do(const effect::DropCopy& drop) {
  copies_->Drop(drop.shard);
  cuts_.erase(drop.shard);
  Post([this, shard = drop.shard](Time now, ServerEffects* effects) {
    core_->OnDropped(shard, now, effects);
  });
}

void ServerLoop::Do(const effect::CheckpointDone& done) {
  copies_->CheckpointDone(done.checkpoint);
  std::erase_if(cuts_, [&](const auto& cut) { return cut.second->checkpoint <= done.checkpoint; });
}

void ServerLoop::TellOrder(uint32_t shard, uint64_t epoch, const CopyCore::OrderDone& done) {
  ServerSays says;
  ServerSays::OrderDone& told = *says.mutable_order_done();
  told.set_shard(shard);
  told.set_epoch(epoch);
  told.set_number(done.number);
  told.set_code(static_cast<int>(done.status.code()));
  told.set_message(std::string(done.status.message()));
  run_link_->Send(std::move(says));
}

// --- Links to other servers

RunLinkEvents ServerLoop::LinkEvents() {
  RunLinkEvents events;
  events.on_begin = [this](uint64_t connection, const LeaderSays::Begin&) {
    Post([this, connection](Time now, ServerEffects* effects) {
      connection_ = connection;
      core_->OnConnected(now, effects);
      // The leader may be another one, or have been started again.
      for (const auto& [shard, cut] : cuts_) GiveCut(shard);
    });
  };
  events.on_message = [this](uint64_t connection, LeaderSays says) {
    Post([this, connection, says = std::move(says)](Time now, ServerEffects* effects) {
      if (says.has_leader() && !says.leader().empty()) told_leader_ = says.leader();
      if (connection != connection_) return;
      if (says.has_assignment()) core_->OnAssignment(says.assignment(), now, effects);
      if (says.has_order()) Heard(says);
      if (says.has_refused()) {
        core_->OnRefused(absl::FailedPreconditionError(says.refused()), effects);
      }
    });
  };
  events.on_gone = [this](uint64_t, const absl::Status& why) {
    options_.log->debug("the link to the server that leads the run: {}", why.ToString());
  };
  return events;
}

void ServerLoop::Heard(const LeaderSays& says) {
  const LeaderSays::Order& order = says.order();
  absl::StatusOr<ShardCommand> command = FromOrder(order.order());
  absl::Status given = command.status();
  if (given.ok()) {
    given = copies_->Execute(
        {0, 0, order.shard(), order.epoch(), order.order().number(), *std::move(command)});
  }
  if (!given.ok()) TellOrder(order.shard(), order.epoch(), {order.order().number(), given});
}

absl::Status ServerLoop::Serve(const ServerSays::Hello&, ServingStream* stream) {
  TaskQueue queue;
  uint64_t link = 0;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return absl::UnavailableError("the server ends");
    link = next_link_++;
    links_[link] = {stream, &queue};
  }
  LeaderSays begin;
  *begin.mutable_begin()->mutable_config() = options_.copies.config;
  begin.mutable_begin()->set_run_id(options_.core.run_id);
  begin.mutable_begin()->set_clock_ns(SteadyNow().count());
  Tell(link, std::move(begin));
  ShardPartReader parts;
  ServerSays says;
  while (stream->Receive(&says)) HeardOf(link, std::move(says), &parts);
  {
    std::lock_guard lock(mutex_);
    links_.erase(link);
  }
  stream->End();
  Post([this, link](Time now, ServerEffects* effects) { core_->OnLinkGone(link, now, effects); });
  return absl::OkStatus();
}

void ServerLoop::HeardOf(uint64_t link, ServerSays says, ShardPartReader* parts) {
  if (says.has_part()) {
    auto whole = parts->Add(says.part());
    if (!whole.ok()) options_.log->warn("a part of a checkpoint: {}", whole.status().ToString());
    if (!whole.ok() || !whole->has_value()) return;
    if (auto* cut = std::get_if<ShardCut>(&**whole)) {
      WritePart(says.part().shard(), std::make_shared<const ShardCut>(std::move(*cut)));
    }
    return;
  }
  Post([this, link, says = std::move(says)](Time now, ServerEffects* effects) {
    if (says.has_state()) core_->OnState(link, says.state(), now, effects);
    if (says.has_order_done()) {
      const ServerSays::OrderDone& done = says.order_done();
      core_->OnOrderDone(done.shard(), done.epoch(), done.number(),
                         absl::Status(static_cast<absl::StatusCode>(done.code()), done.message()),
                         now, effects);
    }
    if (says.has_quarantined()) {
      core_->OnQuarantined(says.quarantined().key(), says.quarantined().why(), now, effects);
    }
  });
}

absl::Status ServerLoop::Follow(const FollowingSays::Hello& hello, FollowingStream* stream) {
  return copies_->Follow(hello, stream);
}

void ServerLoop::Tell(uint64_t link, LeaderSays says) {
  std::lock_guard lock(mutex_);
  const auto to = links_.find(link);
  if (to == links_.end()) return;
  to->second.queue->Post(
      [stream = to->second.stream, says = std::move(says)] { return stream->Send(says); });
}

void ServerLoop::Do(const effect::SendState& send) {
  ServerSays says;
  *says.mutable_state() = send.state;
  run_link_->Send(std::move(says));
}

void ServerLoop::Do(const effect::SendAssignment& send) {
  LeaderSays says;
  *says.mutable_assignment() = send.assignment;
  Tell(send.link, std::move(says));
}

void ServerLoop::Do(const effect::SendOrder& send) {
  const ShardOrderTo& order = send.order;
  if (order.link == kOwnLink) {
    const absl::Status given = copies_->Execute(order);
    if (given.ok()) return;
    return Post([this, order, given](Time now, ServerEffects* effects) {
      core_->OnOrderDone(order.shard, order.epoch, order.number, given, now, effects);
    });
  }
  LeaderSays says;
  says.mutable_order()->set_shard(order.shard);
  says.mutable_order()->set_epoch(order.epoch);
  *says.mutable_order()->mutable_order() = ToOrderForShard(order.number, order.command);
  Tell(order.link, std::move(says));
}

void ServerLoop::Do(const effect::Refuse& refuse) {
  LeaderSays says;
  if (absl::IsUnavailable(refuse.why)) {
    says.set_leader(std::string(refuse.why.message()));
  } else {
    says.set_refused(std::string(refuse.why.message()));
  }
  Tell(refuse.link, std::move(says));
}

// --- The run store

void ServerLoop::Do(const effect::ReadStore&) {
  store_.Post([this] {
    absl::StatusOr<RunStore::Held> held = options_.store->Read();
    std::shared_ptr<const RunPlan> plan;
    if (held.ok() && held->record.has_plan()) {
      absl::StatusOr<RunPlan> read = options_.store->ReadPlan();
      if (read.ok()) {
        plan = std::make_shared<const RunPlan>(*std::move(read));
      } else {
        held = read.status();
      }
    }
    Post([this, held = std::move(held), plan](Time now, ServerEffects* effects) {
      core_->OnStoreRead(held, plan.get(), now, effects);
    });
    return true;
  });
}

void ServerLoop::Do(const effect::WriteStore& write) {
  store_.Post([this, write] {
    Reach(options_.failpoint.get(), Failpoint::kRecordWriting);
    absl::StatusOr<int64_t> written =
        options_.store->Write(write.revision, write.record, write.plan.get(), write.as);
    Reach(options_.failpoint.get(), Failpoint::kRecordWritten);
    Post([this, number = write.number, written](Time now, ServerEffects* effects) {
      core_->OnStoreWritten(number, written, now, effects);
    });
    return true;
  });
}

void ServerLoop::Do(const effect::KeepLease& keep) {
  if (std::exchange(keeping_, true)) return;  // the store is slow
  lease_.Post([this, epoch = keep.epoch] {
    const absl::Status kept = options_.store->Keep(epoch);
    Post([this, epoch, kept](Time now, ServerEffects* effects) {
      keeping_ = false;
      core_->OnLeaseKept(epoch, kept, now, effects);
    });
    return true;
  });
}

// --- Checkpoints

void ServerLoop::GiveCut(uint32_t shard) {
  const auto cut = cuts_.find(shard);
  if (cut == cuts_.end()) return;
  if (core_->leader() != nullptr) return WritePart(shard, cut->second);
  run_link_->SendCut(shard, cut->second);
}

void ServerLoop::WritePart(uint32_t shard, std::shared_ptr<const ShardCut> cut) {
  disk_.Post([this, shard, cut = std::move(cut)] {
    const uint64_t id = cut->checkpoint;
    if (id < writing_) return true;  // of one that was given up
    absl::Status begun;
    if (writing_ != id) {
      begun = checkpoints_.Begin(id);
      writing_ = id;
      written_.clear();
    }
    absl::StatusOr<ShardReceipt> receipt = begun;
    if (const auto before = written_.find(shard); before != written_.end()) {
      receipt = before->second;
    } else if (begun.ok()) {
      receipt = checkpoints_.WriteShard(id, shard, cut->snapshot);
      if (receipt.ok()) written_[shard] = *receipt;
      Reach(options_.failpoint.get(), Failpoint::kCheckpointPart);
    }
    Post([this, id, shard, receipt = std::move(receipt)](Time now, ServerEffects* effects) {
      core_->OnPart(id, shard, receipt, now, effects);
    });
    return true;
  });
}

void ServerLoop::Do(const effect::SealCheckpoint& seal) {
  disk_.Post([this, manifest = seal.manifest] {
    Seal(manifest);
    return true;
  });
}

void ServerLoop::Seal(const CheckpointManifest& manifest) {
  CheckpointInfo info;
  info.set_id(manifest.id());
  info.set_epoch(manifest.epoch_progress());
  info.set_clock(manifest.clock());
  info.set_name(manifest.name());
  for (const ShardReceipt& receipt : manifest.shards())
    info.set_bytes(info.bytes() + receipt.bytes());
  Reach(options_.failpoint.get(), Failpoint::kCheckpointSealing);
  const absl::Status sealed = checkpoints_.Seal(manifest);
  Reach(options_.failpoint.get(), Failpoint::kCheckpointSealed);
  if (sealed.ok()) {
    const absl::Status pruned =
        checkpoints_.Prune(options_.copies.config.durability().keep()).status();
    if (!pruned.ok()) options_.log->warn("old checkpoints: {}", pruned.ToString());
  } else {
    options_.log->error("checkpoint {}: {}", manifest.id(), sealed.ToString());
  }
  Post([this, info, sealed](Time now, ServerEffects* effects) {
    core_->OnSealed(info.id(), sealed.ok() ? absl::StatusOr<CheckpointInfo>(info) : sealed, now,
                    effects);
  });
}

// --- People

void ServerLoop::Do(const effect::Answer& answer) {
  std::lock_guard lock(mutex_);
  const auto asked = asked_.find(answer.request);
  if (asked == asked_.end()) return;
  asked->second.set_value(answer.reply);
  asked_.erase(asked);
}

void ServerLoop::Do(const effect::News& news) {
  options_.log->info("{}", news.text);
  if (options_.on_news) options_.on_news(news.text);
}

void ServerLoop::Do(const effect::End& end) {
  std::lock_guard lock(mutex_);
  ended_ = end.why;
  for (auto& [request, promise] : asked_) {
    promise.set_value(absl::UnavailableError("the run is over"));
  }
  asked_.clear();
  changed_.notify_all();
}

}  // namespace psgd
