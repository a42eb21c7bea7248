#include "server/control/parameter_server.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/available_memory.h"
#include "common/names.h"
#include "net/wire_format.h"
#include "server/control/control_service.h"
#include "server/coordinator/access.h"

namespace psgd {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(100);
constexpr size_t kWritesWaiting = 4096;  // one a shard a checkpoint; shards never wait for the disk

std::string AddressOf(const ParameterServerOptions& options, int port) {
  return absl::StrCat(options.advertise.empty() ? options.host : options.advertise, ":", port);
}

}  // namespace

ParameterServer::ParameterServer(ParameterServerOptions options)
    : options_(std::move(options)),
      members_(options_.credentials ? std::make_shared<AllowList>() : nullptr),
      curve_(options_.credentials ? MakeCurveKeys() : CurveKeys()),
      guard_(members_, options_.log),
      core_([&] {
        CoordinatorOptions core;
        core.config = options_.config;
        core.checkpoint = options_.resume;
        core.given = options_.given;
        // Above those of an earlier server of this run, whose workers may still be about.
        core.last_checkpoint = options_.last_checkpoint;
        // Others are taken to be as large as this one.
        core.memory = AvailableMemory() * std::max(1, options_.config.cluster().servers());
        core.first_incarnation = static_cast<uint32_t>(std::time(nullptr));
        if (options_.resume) {
          const CheckpointManifest& manifest = options_.resume->manifest();
          CoordinatorSnapshot& snapshot = core.resume.emplace();
          snapshot.checkpoint = manifest.id();
          snapshot.position.epoch = manifest.epoch();
          snapshot.position.clock = manifest.clock();
          snapshot.position.remaining = BatchQueue(manifest.remaining());
          snapshot.hyper = manifest.hyper();
          snapshot.total = manifest.total();
          snapshot.evaluations.assign(manifest.evaluations().begin(), manifest.evaluations().end());
        }
        return core;
      }()),
      store_(options_.checkpoint_dir),
      to_write_(kWritesWaiting),
      quarantined_(kWritesWaiting) {}

absl::StatusOr<std::unique_ptr<ParameterServer>> ParameterServer::Start(
    ParameterServerOptions options) {
  std::unique_ptr<ParameterServer> server;
  if (options.recover) {
    PSGD_ASSIGN_OR_RETURN(server, OpenJournal(std::move(options)));
    PSGD_RETURN_IF_ERROR(server->OpenShardSet());
    PSGD_RETURN_IF_ERROR(server->RecoverShards());
  } else {
    server.reset(new ParameterServer(std::move(options)));
    PSGD_RETURN_IF_ERROR(server->CreateJournal());
    PSGD_RETURN_IF_ERROR(server->OpenShardSet());
    PSGD_RETURN_IF_ERROR(server->StartShards());
    const ParameterServerOptions& o = server->options_;
    PSGD_ASSIGN_OR_RETURN(server->service_,
                          ControlService::Start(o.host, o.control_port, o.credentials.get()));
    // The first that is written down says where it listens.
    server->control_address_ = AddressOf(o, server->service_->port());
    if (o.resume) PSGD_RETURN_IF_ERROR(server->Resume());
  }
  PSGD_RETURN_IF_ERROR(server->Open());
  return server;
}

absl::Status ParameterServer::Open() {
  writer_ = std::thread([this] { WriteLoop(); });
  const ParameterServerOptions& o = options_;
  if (service_ == nullptr) {
    PSGD_ASSIGN_OR_RETURN(service_,
                          ControlService::Start(o.host, o.control_port, o.credentials.get()));
  }
  control_address_ = AddressOf(o, service_->port());
  {
    std::lock_guard lock(mutex_);
    core_.RenewLeases(SteadyNow());
  }
  if (keeper_ != nullptr) {
    if (keeper_->chain().members_size() == 0)
      PSGD_RETURN_IF_ERROR(keeper_->Begin(control_address_));
    chain_thread_ = std::thread([this] { ChainLoop(); });
  }
  ticker_ = std::thread([this] { TickLoop(); });
  mover_ = std::thread([this] { MoveLoop(); });
  service_->Serve(this);
  return absl::OkStatus();
}

absl::Status ParameterServer::Resume() {
  std::lock_guard lock(mutex_);
  Effects effects;
  PSGD_RETURN_IF_ERROR(core_.Resume(Endpoints(), &effects));
  return Apply(std::move(effects));
}

ParameterServer::~ParameterServer() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (followers_ != nullptr) followers_->CloseAll();
  EndHosts();
  if (mover_.joinable()) mover_.join();
  // Outside first, so that nobody calls in while the inside goes.
  service_.reset();
  if (ticker_.joinable()) ticker_.join();
  if (chain_thread_.joinable()) chain_thread_.join();
  // It hands images back to the shards.
  to_write_.Close();
  if (writer_.joinable()) writer_.join();
  if (local_ != nullptr) local_->Clear();
}

absl::Status ParameterServer::Apply(Effects effects) {
  orders_.Add(std::move(effects.commands));
  const absl::Status status = CarryOutOrders();
  for (const std::string& line : effects.news) Tell(line);
  changed_.notify_all();
  return status;
}

void ParameterServer::Tell(const std::string& news) const {
  options_.log->info("{}", news);
  if (options_.on_news) options_.on_news(news);
}

absl::Status ParameterServer::CarryOutOrders() {
  const bool installs = orders_.installs();
  if (!installs) PSGD_RETURN_IF_ERROR(SaveRecord());
  absl::Status failed;
  const auto shards = Shards();
  std::vector<bool> behind(shards.size());  // those that could not carry one out get none after it
  for (OrderBook::Order& order : orders_.orders()) {
    if (order.carried_out) continue;
    Begin(&order);
    order.carried_out = true;
    std::vector<std::future<absl::Status>> under_way(shards.size());
    for (size_t s = 0; s < shards.size(); ++s) {
      if (!behind[s]) under_way[s] = shards[s]->Execute(order.command, order.number);
    }
    for (size_t s = 0; s < shards.size(); ++s) {
      const absl::Status status = behind[s] ? failed : under_way[s].get();
      behind[s] = behind[s] || absl::IsUnavailable(status);
      if (behind[s]) order.carried_out = false;
      if (!status.ok() && failed.ok()) failed = status;
    }
  }
  PSGD_RETURN_IF_ERROR(failed);
  std::vector<uint64_t> written;
  for (const auto& shard : shards) written.push_back(shard->written_order());
  PSGD_RETURN_IF_ERROR(orders_.Written(written));
  return installs ? SaveRecord() : absl::OkStatus();
}

void ParameterServer::Begin(OrderBook::Order* order) {
  if (std::exchange(order->begun, true)) return;
  if (const auto* checkpoint = std::get_if<TakeCheckpoint>(&order->command)) {
    const absl::Status begun = store_.Begin(checkpoint->id);
    if (!begun.ok()) options_.log->error("checkpoint {}: {}", checkpoint->id, begun.ToString());
  }
  if (const auto* gone = std::get_if<RemoveWorker>(&order->command); gone != nullptr && members_) {
    members_->Remove(gone->key.worker(), gone->key.incarnation());
    passes_.erase(gone->key.worker());
    for (const auto& [server, host] : hosts_) host->Remove(gone->key);
  }
}

absl::StatusOr<JoinReply> ParameterServer::Join(const JoinRequest& request) {
  if (request.protocol() != kProtocolVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the worker speaks protocol ", request.protocol(), ", this server ",
                     kProtocolVersion, "; install the same version of psgd on both"));
  }
  PSGD_RETURN_IF_ERROR(CheckJoin(request));
  JoinRequest readable = request;
  readable.set_device(Readable(request.device()));
  std::lock_guard lock(mutex_);
  Effects effects;
  auto reply = core_.Join(readable, SteadyNow(), &effects);
  if (reply.ok()) HandOutPasses(request, &*reply);
  if (reply.ok()) reply->set_trace_steps(options_.on_spans ? options_.trace_steps : 0);
  PSGD_RETURN_IF_ERROR(Apply(std::move(effects)));
  if (reply.ok() && followers_ != nullptr) *reply->mutable_chain() = ChainFor(reply->key());
  return reply;
}

absl::StatusOr<RegisterReply> ParameterServer::Register(const RegisterRequest& request) {
  std::lock_guard lock(mutex_);
  Effects effects;
  auto reply = core_.Register(request, Endpoints(), SteadyNow(), &effects);
  const absl::Status installed = Apply(std::move(effects));
  if (absl::IsUnavailable(installed)) return installed;  // it is asked again
  if (!installed.ok()) {
    // Shards without a model cannot train anybody.
    Effects end;
    DrainRequest failed;
    failed.set_reason(std::string(installed.message()));
    failed.set_failed(true);
    core_.Drain(failed, &end);
    PSGD_RETURN_IF_ERROR(Apply(std::move(end)));
    return installed;
  }
  return reply;
}

absl::StatusOr<NextSegmentReply> ParameterServer::NextSegment(const NextSegmentRequest& request) {
  std::lock_guard lock(mutex_);
  NextSegmentReply wait;
  if (WaitsForFollowers(wait.mutable_reason()) || WaitsForServers(wait.mutable_reason())) {
    wait.set_kind(NextSegmentReply::WAIT);
    wait.set_wait_ms(kTick.count() / 1'000'000);
    return wait;
  }
  Effects effects;
  auto reply = core_.NextSegment(request, SteadyNow(), &effects);
  PSGD_RETURN_IF_ERROR(Apply(std::move(effects)));
  if (reply.ok() && followers_ != nullptr) *reply->mutable_chain() = ChainFor(request.key());
  return reply;
}

absl::StatusOr<EvaluatedReply> ParameterServer::Evaluated(const EvaluatedRequest& request) {
  std::lock_guard lock(mutex_);
  Effects effects;
  PSGD_RETURN_IF_ERROR(core_.Evaluated(request, SteadyNow(), &effects));
  if (options_.on_evaluation) options_.on_evaluation(request.result());
  PSGD_RETURN_IF_ERROR(Apply(std::move(effects)));
  return EvaluatedReply();
}

absl::StatusOr<HeartbeatReply> ParameterServer::Heartbeat(const HeartbeatRequest& request) {
  HeartbeatRequest readable = request;
  MakeReadable(readable.mutable_report());
  std::unique_lock lock(mutex_);
  const bool again = core_.HasCounted(readable);
  auto reply = core_.Heartbeat(readable, SteadyNow());
  if (reply.ok() && followers_ != nullptr) {
    *reply->mutable_chain() = ChainFor(request.key());
    Introduce(request.key(), request.number(), reply->chain());
  }
  if (reply.ok() && (keeper_ != nullptr || !hosts_.empty())) {
    for (std::string& endpoint : Endpoints()) reply->add_endpoints(std::move(endpoint));
  }
  // Only counts changed: that one of them is lost with the machine does no harm.
  (void)SaveRecord(/*wait_for_disk=*/false);
  lock.unlock();
  if (!reply.ok()) return reply;
  reply->set_clock_ns(SteadyNow().count());
  if (again) return reply;
  const WorkerReport& report = readable.report();
  if (report.residual_norm_lost() > 0) {
    Tell(absl::StrCat("a residual of norm ", report.residual_norm_lost(),
                      " of the checkpoint is lost: no codec of worker ", request.key().worker(),
                      " takes it"));
  }
  if (report.has_choices() && options_.on_choices) options_.on_choices(report.choices());
  if (report.spans_size() > 0 && options_.on_spans) {
    options_.on_spans(kThisServer, {report.spans().begin(), report.spans().end()});
  }
  return reply;
}

absl::StatusOr<LeaveReply> ParameterServer::Leave(const LeaveRequest& request) {
  LeaveRequest readable = request;
  readable.set_reason(Readable(request.reason()));
  std::lock_guard lock(mutex_);
  Effects effects;
  PSGD_RETURN_IF_ERROR(core_.Leave(readable, SteadyNow(), &effects));
  PSGD_RETURN_IF_ERROR(Apply(std::move(effects)));
  return LeaveReply();
}

absl::StatusOr<DrainReply> ParameterServer::Drain(const DrainRequest& request) {
  DrainRequest readable = request;
  readable.set_reason(Readable(request.reason()));
  std::lock_guard lock(mutex_);
  Effects effects;
  if (request.has_worker()) {
    PSGD_RETURN_IF_ERROR(core_.DrainWorker(request.worker(), &effects));
  } else {
    core_.Drain(readable, &effects);
  }
  PSGD_RETURN_IF_ERROR(Apply(std::move(effects)));
  return DrainReply();
}

absl::StatusOr<SetHyperReply> ParameterServer::SetHyper(const SetHyperRequest& request) {
  std::lock_guard lock(mutex_);
  Effects effects;
  SetHyperReply reply;
  PSGD_ASSIGN_OR_RETURN(*reply.mutable_hyper(), core_.SetHyper(request, &effects));
  PSGD_RETURN_IF_ERROR(Apply(std::move(effects)));
  return reply;
}

bool ParameterServer::AllWorkersGone() const {
  const StatusReply status = core_.Status(SteadyNow());
  return std::none_of(status.workers().begin(), status.workers().end(),
                      [](const WorkerStatus& worker) { return worker.live(); });
}

bool ParameterServer::Finished() const {
  std::lock_guard lock(mutex_);
  return core_.over() && !orders_.pending() && AllWorkersGone();
}

bool ParameterServer::WaitFinished(Duration timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] {
    return lost_ || (core_.over() && !orders_.pending() && AllWorkersGone());
  });
}

void ParameterServer::TickLoop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    Effects effects;
    while (const auto worker = quarantined_.PopFor(Duration::zero())) {
      core_.Quarantine(worker->key, Readable(worker->why), &effects);
    }
    core_.Tick(SteadyNow(), &effects);
    ForgetIntroductions();
    if (!effects.commands.empty() || !effects.news.empty() || !orders_.empty()) {
      const absl::Status status = Apply(std::move(effects));
      const bool waits = absl::IsUnavailable(status);
      if (!status.ok() && !(waits && told_waiting_)) options_.log->error("{}", status.ToString());
      told_waiting_ = waits;
    }
    changed_.wait_for(lock, kTick, [&] { return stopping_; });
  }
}

}  // namespace psgd
