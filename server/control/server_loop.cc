#include "server/control/server_loop.h"

#include <algorithm>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/durability/server_record.h"
#include "server/durability/shard_parts.h"
#include "server/shard/shard_order.h"

namespace psgd {
namespace {

constexpr int kLoopTicksPerPatience = 10;
constexpr Duration kLoopTick = std::chrono::milliseconds(100);
constexpr Duration kGoodbye =
    std::chrono::seconds(2);  // time to tell other servers that the run is over

// A silent copy is left out before the run's leader would give up its server.
// Without other copies there are only those of a shard that moves, so the threads look less often.
Duration SilenceOfCopies(const RunLeaderOptions& run) {
  return run.copies > 1 ? run.patience / 2 : run.patience;
}

// An answer from the loop's thread. A caller hears it if the answer is never given.
template <typename T>
class Answer {
 public:
  ~Answer() {
    if (!given_) promise_.set_value(absl::UnavailableError("the server ends"));
  }
  void Give(absl::StatusOr<T> answer) {
    given_ = true;
    promise_.set_value(std::move(answer));
  }
  std::future<absl::StatusOr<T>> future() { return promise_.get_future(); }

 private:
  std::promise<absl::StatusOr<T>> promise_;
  bool given_ = false;
};

}  // namespace

ServerLoop::ServerLoop(ServerLoopOptions options)
    : options_(std::move(options)),
      checkpoints_(options_.checkpoint_dir),
      members_(options_.copies.credentials ? std::make_shared<AllowList>() : nullptr),
      guard_(members_, options_.log),
      links_(members_),
      standing_(Milliseconds(options_.copies.config.cluster().deadline())),
      told_leader_(options_.leader),
      writer_(&checkpoints_, options_.copies.config.durability().keep(), options_.failpoint.get(),
              options_.log) {}

absl::StatusOr<std::unique_ptr<ServerLoop>> ServerLoop::Start(ServerLoopOptions options) {
  std::unique_ptr<ServerLoop> loop(new ServerLoop(std::move(options)));
  PSGD_RETURN_IF_ERROR(loop->Open());
  return loop;
}

std::shared_ptr<const TransportSecurity> ServerLoop::DataSecurity() const {
  if (members_ == nullptr) return nullptr;
  auto security = std::make_shared<TransportSecurity>();
  security->credentials = options_.copies.credentials;
  security->curve = {options_.record.curve_public(), options_.record.curve_secret()};
  security->allowed = members_;
  return security;
}

absl::Status ServerLoop::Open() {
  ServerCoreOptions core = options_.core;
  core.run_id = options_.record.run_id();
  core.self.set_identity(options_.record.identity());
  core.self.set_name(options_.name);
  core.self.set_beside_worker(options_.record.beside_worker());
  core.self.set_link(options_.link);
  core.may_lead = options_.store != nullptr;
  core.leader.shared_store = core.may_lead && options_.store->shared();
  core.self.set_may_lead(core.leader.shared_store);
  core.leader.trace_steps = options_.trace_steps;
  if (members_ != nullptr) {
    core.leader.curve_key = options_.record.curve_public();
    core.leader.draw_token = MakeToken;
  }
  if (core.leader.coordinator.resume) {
    samples_before_ = core.leader.coordinator.resume->total.samples();
  }
  PSGD_RETURN_IF_ERROR(SaveServerRecord(options_.copies.journal_dir, options_.record));

  CopySetOptions copies = options_.copies;
  copies.run_id = core.run_id;
  copies.security = DataSecurity();
  copies.silence = SilenceOfCopies(core.leader);
  copies.callbacks = Callbacks();
  PSGD_ASSIGN_OR_RETURN(copies_, CopySet::Open(std::move(copies)));
  core.on_disk = copies_->shards();
  core_ = std::make_unique<ServerCore>(std::move(core));

  run_link_ = std::make_unique<RunLink>(LinkOptions());
  Post([this](Time now, ServerEffects* effects) { core_->Start(now, effects); });
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

ServerLoop::~ServerLoop() { Stop(); }

void ServerLoop::Stop() {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(stopping_, true)) return;
    changed_.notify_all();
  }
  links_.Stop();
  FailAsked(absl::UnavailableError("the server ends"));
  if (thread_.joinable()) thread_.join();
  run_link_.reset();
  if (copies_ != nullptr) copies_->Stop();
  std::deque<Event> unheard;
  std::lock_guard lock(mutex_);
  unheard.swap(events_);
}

void ServerLoop::FailAsked(const absl::Status& why) {
  std::lock_guard lock(mutex_);
  for (auto& [request, promise] : asked_) promise.set_value(why);
  asked_.clear();
}

void ServerLoop::Post(Event event) {
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  events_.push_back(std::move(event));
  changed_.notify_all();
}

template <typename Work, typename Then>
void ServerLoop::On(TaskQueue* queue, Work work, Then then) {
  queue->Post([this, work = std::move(work), then = std::move(then)] {
    Post([then, result = work()](Time now, ServerEffects* effects) { then(result, now, effects); });
    return true;
  });
}

void ServerLoop::Run() {
  const Duration tick =
      std::min<Duration>(kLoopTick, options_.core.leader.patience / kLoopTicksPerPatience);
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
  const bool leads = core_->leader() != nullptr;
  const std::string& known = core_->leader_address();
  if (leads) {
    samples_before_ =
        std::max(samples_before_.load(), core_->leader()->coordinator().samples_before());
  }
  standing_.Look(*core_, run_link_->connected());
  run_link_->SetLeader(leads || standing_.now().ended ? "" : known.empty() ? told_leader_ : known);
  if (led_ && !leads) {
    FailAsked(UnavailableError("this server does not lead the run any more",
                               known.empty() ? "" : absl::StrCat("; ", known, " does")));
  }
  if (!leads) cuts_.WritesNothing();
  led_ = leads;
}

absl::StatusOr<ControlReply> ServerLoop::Ask(ControlRequest request) {
  if (const auto* checkpoint = std::get_if<CheckpointRequest>(&request)) {
    PSGD_RETURN_IF_ERROR(CheckNewName(checkpoints_, checkpoint->name()));
  }
  std::future<absl::StatusOr<ControlReply>> answer;
  uint64_t number = 0;
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || standing_.now().ended) return absl::UnavailableError("the server ends");
    number = next_request_++;
    answer = asked_[number].get_future();
  }
  Post([this, number, request = std::move(request)](Time now, ServerEffects* effects) {
    core_->OnRequest(number, request, now, effects);
  });
  absl::StatusOr<ControlReply> reply = answer.get();
  if (!reply.ok()) return reply;
  if (auto* status = std::get_if<StatusReply>(&*reply)) {
    status->set_run_dir(options_.run_dir);
    for (const auto& [reason, count] : guard_.refused())
      (*status->mutable_refused())[reason] = count;
    standing_.AddTo(status);
  }
  return reply;
}

RunWeights ServerLoop::WeightsOfRun() const {
  return {.copies = *copies_,
          .run_id = options_.record.run_id(),
          .credentials = options_.copies.credentials.get(),
          .deadline = Milliseconds(options_.copies.config.cluster().deadline())};
}

absl::Status ServerLoop::Weights(const std::function<absl::Status(const WeightsChunk&)>& send) {
  auto answer = std::make_shared<Answer<RunModel>>();
  auto given = answer->future();
  Post([this, answer = std::move(answer)](Time, ServerEffects*) {
    answer->Give(ModelOf(core_->leader()));
  });
  PSGD_ASSIGN_OR_RETURN(const RunModel model, given.get());
  return WeightsOfRun().Send(model, send);
}

absl::Status ServerLoop::ShardWeights(
    const ShardWeightsRequest& request,
    const std::function<absl::Status(const ShardWeightsChunk&)>& send) {
  return WeightsOfRun().SendShard(request, send);
}

void ServerLoop::Leave() {
  Post([this](Time, ServerEffects*) {
    standing_.Leave();
    core_->Leave();
  });
}

void ServerLoop::Close() {
  Post([this](Time now, ServerEffects* effects) {
    if (core_->leader() != nullptr) core_->Close(now, effects);
  });
}

void ServerLoop::WaitUntilTold() { links_.WaitUntilNone(kGoodbye); }

absl::Status ServerLoop::FreeRun() {
  WaitUntilTold();
  if (options_.store == nullptr || !options_.store->shared()) return absl::OkStatus();
  PSGD_ASSIGN_OR_RETURN(const RunStore::Held held, options_.store->Read());
  // Another server may have closed the run, and the name may be that of a new run.
  const bool closed_here = held.revision != 0 && held.record.over() &&
                           held.record.run_id() == options_.record.run_id() &&
                           held.record.leader() == standing_.now().server;
  return closed_here ? options_.store->Remove(held.revision) : absl::OkStatus();
}

// --- Copies on this server

CopyCallbacks ServerLoop::Callbacks() {
  CopyCallbacks callbacks;
  callbacks.on_state = [this](CopyState state) {
    {
      const std::lock_guard lock(mutex_);
      copy_states_.push_back(std::move(state));
      if (copy_states_.size() > 1) return;  // an event for the first waits, and takes all
    }
    Post([this](Time now, ServerEffects* effects) {
      std::vector<CopyState> states;
      {
        const std::lock_guard lock(mutex_);
        states.swap(copy_states_);
      }
      core_->OnCopies(states, now, effects);
    });
  };
  callbacks.on_order = [this](uint32_t shard, CopyCore::OrderDone done) {
    Post([this, shard, done = std::move(done)](Time now, ServerEffects* effects) {
      if (core_->leader() == nullptr) return run_link_->Send(SaysOrderDone(shard, done));
      core_->OnOrderDone(shard, done.epoch, done.number, done.status, now, effects);
    });
  };
  callbacks.on_cut = [this](uint32_t shard, ShardCut cut) {
    auto kept = std::make_shared<const ShardCut>(std::move(cut));
    Post([this, shard, kept = std::move(kept)](Time, ServerEffects* effects) {
      if (core_->OnCut(shard, kept->checkpoint, effects)) cuts_.Made(shard, kept);
    });
  };
  callbacks.on_quarantine = [this](const QuarantinedWorker& worker) {
    Post([this, worker](Time now, ServerEffects* effects) {
      if (core_->leader() != nullptr) {
        return core_->OnQuarantined(worker, now, effects);
      }
      run_link_->Send(SaysQuarantined(worker));
    });
  };
  callbacks.on_image = [this](uint32_t shard, std::shared_ptr<const ShardImage> due) {
    Post([this, shard, due = std::move(due)](Time, ServerEffects*) {
      disk_.Post([this, shard, due] {
        const absl::Status saved = copies_->SaveImage(shard, due);
        if (!saved.ok()) {
          options_.log->error(
              "shard {}: its journal grows, since no image of it can be written: {}", shard,
              saved.ToString());
        }
        return true;
      });
    });
  };
  if (options_.trace_steps > 0) {
    callbacks.trace_steps = options_.trace_steps;
    callbacks.on_spans = [this](std::vector<TraceSpan> spans) {
      Post([this, spans = std::move(spans)](Time, ServerEffects*) mutable {
        TellSpans(std::move(spans));
      });
    };
  }
  if (options_.failpoint != nullptr) {
    callbacks.on_sent = [plan = options_.failpoint] { plan->Reach(Failpoint::kAnswersSent); };
  }
  return callbacks;
}

void ServerLoop::Do(const effect::HaveCopy& have) {
  copies_->Have(have.copy, core_->holder().self().server());
}

void ServerLoop::Do(const effect::DropCopy& drop) {
  drops_.Post([this, shard = drop.shard] {
    copies_->Drop(shard);
    Post([this, shard](Time now, ServerEffects* effects) {
      cuts_.Dropped(shard);
      core_->OnDropped(shard, now, effects);
    });
    return true;
  });
}

void ServerLoop::Do(const effect::CheckpointDone& done) {
  copies_->CheckpointDone(done.checkpoint);
  cuts_.Done(done.checkpoint);
}

void ServerLoop::TellSpans(std::vector<TraceSpan> spans) {
  if (core_->leader() != nullptr) {
    if (options_.on_spans) options_.on_spans(core_->holder().self().server(), std::move(spans));
    return;
  }
  ServerSays says;
  says.mutable_spans()->set_server(core_->holder().self().server());
  for (TraceSpan& span : spans) {
    span.set_start_ns(span.start_ns() + clock_ahead_.count());
    *says.mutable_spans()->add_spans() = std::move(span);
  }
  run_link_->Send(std::move(says));
}

// --- Links to other servers

RunLink::Options ServerLoop::LinkOptions() {
  RunLink::Options link;
  link.call = [this](const std::string& address) {
    return CallRunLeader(address, options_.copies.credentials.get(), kPeerPatience);
  };
  link.hello = HelloToRunLeader(options_.name);
  link.on_message = [this](const LeaderSays& says) {
    if (says.has_begin()) {
      OnBegin(says.begin());
    } else if (says.has_admit()) {
      links_.Admit(says.admit());
    } else if (says.has_remove()) {
      links_.Expel(says.remove());
    } else {
      Post([this, says](Time now, ServerEffects* effects) {
        if (!says.leader().empty()) told_leader_ = says.leader();
        if (says.has_assignment()) core_->OnAssignment(says.assignment(), now, effects);
        if (says.has_order()) OnOrder(says.order());
        if (says.has_refused()) {
          core_->OnRefused(absl::FailedPreconditionError(says.refused()), effects);
        }
      });
    }
    return absl::OkStatus();
  };
  link.leader = "the server that leads the run";
  link.log = options_.log;
  return link;
}

void ServerLoop::OnBegin(const LeaderSays::Begin& begin) {
  for (const CoordinatorRecord::Pass& pass : begin.passes()) links_.Admit(pass);
  const Duration ahead = Duration(begin.clock_ns()) - SteadyNow();
  Post([this, ahead](Time now, ServerEffects* effects) {
    clock_ahead_ = ahead;
    core_->OnConnected(now, effects);
  });
}

void ServerLoop::OnOrder(const LeaderSays::Order& order) {
  absl::StatusOr<ShardCommand> command = FromOrder(order.order());
  absl::Status given = command.status();
  if (given.ok()) {
    given = copies_->Execute(
        {0, 0, order.shard(), order.epoch(), order.order().number(), *std::move(command)});
  }
  if (given.ok()) return;
  run_link_->Send(SaysOrderDone(order.shard(), {order.order().number(), order.epoch(), given}));
}

absl::Status ServerLoop::Serve(const ServerSays::Hello&, ServingStream* stream) {
  LeaderSays begins;
  LeaderSays::Begin& begin = *begins.mutable_begin();
  *begin.mutable_config() = options_.copies.config;
  begin.set_run_id(options_.record.run_id());
  begin.set_trace_steps(options_.trace_steps);
  begin.set_clock_ns(SteadyNow().count());
  begin.set_curve_public(options_.record.curve_public());
  begin.set_curve_secret(options_.record.curve_secret());
  ShardPartReader parts;
  PSGD_ASSIGN_OR_RETURN(const uint64_t link, links_.Serve(std::move(begins), stream,
                                                          [&](uint64_t from, ServerSays says) {
                                                            HeardOf(from, std::move(says), &parts);
                                                          }));
  Post([this, link](Time now, ServerEffects* effects) { core_->OnLinkGone(link, now, effects); });
  return absl::OkStatus();
}

void ServerLoop::HeardOf(uint64_t link, ServerSays says, ShardPartReader* parts) {
  if (says.has_part()) {
    auto whole = parts->Add(says.part());
    if (!whole.ok()) options_.log->warn("a part of a checkpoint: {}", whole.status().ToString());
    if (!whole.ok() || !whole->has_value()) return;
    if (auto* cut = std::get_if<ShardCut>(&**whole)) {
      Post([this, shard = says.part().shard(),
            cut = std::make_shared<const ShardCut>(std::move(*cut))](Time, ServerEffects* effects) {
        if (core_->OnPartCame(cut->checkpoint, shard, effects)) cuts_.Came(shard, cut);
      });
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
    if (says.has_spans() && options_.on_spans) {
      options_.on_spans(says.spans().server(),
                        {says.spans().spans().begin(), says.spans().spans().end()});
    }
    if (says.has_quarantined()) {
      const ServerSays::Quarantined& worker = says.quarantined();
      core_->OnQuarantined({worker.key(), worker.why(), worker.not_finite()}, now, effects);
    }
  });
}

absl::Status ServerLoop::Follow(const FollowingSays::Hello& hello, FollowingStream* stream) {
  return copies_->Follow(hello, stream);
}

void ServerLoop::Do(const effect::SendState& send) {
  ServerSays says;
  *says.mutable_state() = send.state;
  run_link_->Send(std::move(says));
}

void ServerLoop::Do(const effect::SendAssignment& send) {
  LeaderSays says;
  *says.mutable_assignment() = send.assignment;
  links_.Tell(send.link, says);
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
  links_.Tell(order.link, SaysOrder(order));
}

void ServerLoop::Do(const effect::Refuse& refuse) {
  links_.Tell(refuse.link, SaysRefused(refuse.why));
}

// --- The run store

void ServerLoop::Do(const effect::ReadStore&) {
  struct Read {
    absl::StatusOr<RunStore::Held> held;
    std::shared_ptr<const RunPlan> plan;
  };
  const auto read = [store = options_.store] {
    Read read = {store->Read(), nullptr};
    if (!read.held.ok() || !read.held->record.has_plan()) return read;
    absl::StatusOr<RunPlan> plan = store->ReadPlan();
    if (plan.ok()) {
      read.plan = std::make_shared<const RunPlan>(*std::move(plan));
    } else {
      read.held = plan.status();
    }
    return read;
  };
  On(&store_, read, [this](const Read& read, Time now, ServerEffects* effects) {
    core_->OnStoreRead(read.held, read.plan.get(), now, effects);
  });
}

void ServerLoop::Do(const effect::WriteStore& write) {
  const auto task = [this, write] {
    Reach(options_.failpoint.get(), Failpoint::kRecordWriting);
    absl::StatusOr<int64_t> written =
        options_.store->Write(write.revision, write.record, write.plan.get(), write.as);
    Reach(options_.failpoint.get(), Failpoint::kRecordWritten);
    return written;
  };
  On(&store_, task,
     [this, number = write.number](const auto& written, Time now, ServerEffects* effects) {
       core_->OnStoreWritten(number, written, now, effects);
     });
}

void ServerLoop::Do(const effect::KeepLease& keep) {
  On(
      &lease_, [this, epoch = keep.epoch] { return options_.store->Keep(epoch); },
      [this, epoch = keep.epoch](const absl::Status& kept, Time, ServerEffects* effects) {
        core_->OnLeaseKept(epoch, kept, effects);
      });
}

// --- Checkpoints

void ServerLoop::Do(const effect::SendPart& part) {
  const auto cut = cuts_.Find(part.checkpoint, part.shard);
  if (cut == nullptr) return;
  run_link_->SendAll([shard = part.shard, cut](RunStream* stream) {
    return SendCut(shard, *cut, [&](const ShardPart& piece) {
      ServerSays says;
      *says.mutable_part() = piece;
      return stream->Send(says);
    });
  });
}

void ServerLoop::Do(const effect::WritePart& part) {
  const auto cut = cuts_.Write(part.checkpoint, part.shard);
  if (cut == nullptr) return;
  disk_.Post([this, part, cut] {
    auto receipt = writer_.Write(part, *cut);
    if (!receipt) return true;
    Post([this, part, receipt = *std::move(receipt)](Time now, ServerEffects* effects) {
      if (core_->OnPart(part, receipt, now, effects)) cuts_.Written(part.checkpoint, part.shard);
    });
    return true;
  });
}

void ServerLoop::Do(const effect::SealCheckpoint& seal) {
  On(
      &disk_, [this, manifest = seal.manifest] { return writer_.Seal(manifest); },
      [this, id = seal.manifest.id(), epoch = seal.run_epoch](const auto& sealed, Time now,
                                                              ServerEffects* effects) {
        if (sealed.ok() && options_.on_checkpoint) options_.on_checkpoint(sealed->info);
        core_->OnSealed(epoch, id, sealed, now, effects);
      });
}

void ServerLoop::Do(const effect::DiscardParts& parts) {
  disk_.Post([this, parts] {
    writer_.Discard(parts);
    return true;
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

void ServerLoop::Do(const effect::Admit& admit) {
  links_.Admit(admit.pass);
  LeaderSays says;
  *says.mutable_admit() = admit.pass;
  links_.TellAll(says);
}

void ServerLoop::Do(const effect::Expel& expel) {
  links_.Expel(expel.worker);
  LeaderSays says;
  *says.mutable_remove() = expel.worker;
  links_.TellAll(says);
}

void ServerLoop::Do(const effect::Observed& observed) {
  if (const auto* result = std::get_if<EvalResult>(&observed.what)) {
    if (options_.on_evaluation) options_.on_evaluation(*result);
  } else if (const auto* choices = std::get_if<CodecChoices>(&observed.what)) {
    if (options_.on_choices) options_.on_choices(*choices);
  } else if (options_.on_spans) {
    options_.on_spans(core_->holder().self().server(),
                      std::get<std::vector<TraceSpan>>(observed.what));
  }
}

void ServerLoop::Do(const effect::News& news) {
  options_.log->info("{}", news.text);
  if (options_.on_news) options_.on_news(news.text);
}

void ServerLoop::Do(const effect::End& end) {
  standing_.End(end.why);
  FailAsked(end.why.ok() ? absl::UnavailableError("the run is over") : end.why);
}

}  // namespace psgd
