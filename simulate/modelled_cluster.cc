#include "simulate/modelled_cluster.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace psgd::sim {
namespace {

constexpr size_t kGradientParts = 4;
constexpr Duration kTick = std::chrono::milliseconds(200);
constexpr double kSharedMemory = 20e-6;  // one way, at most

// The config of the simulation: only the training, of `clocks` clocks, in as many epochs as they
// take.
Config SimulatedConfig(const Workload& workload, uint64_t clocks) {
  Config config = workload.config;
  config.mutable_durability()->clear_checkpoint();
  const uint64_t steps = clocks * StepsOfClock(config.local());
  config.mutable_train()->set_max_steps(static_cast<int64_t>(steps));
  const double samples =
      static_cast<double>(steps) * config.cluster().workers() * config.data().batch();
  config.mutable_train()->set_epochs(
      2 + static_cast<int>(samples / static_cast<double>(std::max<uint64_t>(workload.samples, 1))));
  return config;
}

uint64_t BatchesOf(const Workload& workload) {
  return std::max<uint64_t>(1, workload.samples / std::max(1, workload.config.data().batch()));
}

std::vector<uint32_t> ServersOf(const Config& config, const Traffic& traffic,
                                const SimulationOptions& options) {
  const int shards = config.cluster().shards();
  if (!options.servers_on_workers) return std::vector<uint32_t>(shards);
  const SimNetwork& network = options.model.network();
  std::vector<ServerPlace> places(options.model.server().hosts(),
                                  {.beside_worker = false, .link = network.server_link()});
  for (int worker = 0; worker < config.cluster().workers(); ++worker)
    places.push_back(
        {.beside_worker = true, .link = SiteOf(network, static_cast<uint32_t>(worker)).link()});
  return PlaceShards(traffic, shards, places, config.cluster().workers());
}

CoordinatorOptions CoordinatorFor(const Config& config) {
  CoordinatorOptions options;
  options.config = config;
  return options;
}

}  // namespace

SimSite SiteOf(const SimNetwork& network, uint32_t worker) {
  if (network.sites_size() > 0) {
    return network.sites(static_cast<int>(worker % static_cast<uint32_t>(network.sites_size())));
  }
  SimSite site;
  site.set_link(network.worker_link());
  site.set_latency(network.latency());
  return site;
}

uint64_t EnoughClocks(int workers) {
  return std::clamp<uint64_t>(40'000 / static_cast<uint64_t>(workers), 30, 400);
}

ModelledCluster::ModelledCluster(const Workload& workload, const Traffic& traffic,
                                 const SimulationOptions& options)
    : options_(options),
      workload_(workload),
      config_(SimulatedConfig(workload, options.clocks > 0
                                            ? options.clocks
                                            : EnoughClocks(workload.config.cluster().workers()))),
      servers_(ServersOf(config_, traffic, options)),
      groups_(GroupShards(traffic, servers_, options.most_flows / config_.cluster().workers())),
      traffic_(Reduce(traffic, groups_)),
      chance_(options.seed, 1),
      coordinator_(CoordinatorFor(config_)) {
  MakeHosts();
  MakeShards();
  MakeGradients();
  if (options.servers_on_workers) {
    const auto own = static_cast<int>(OwnServers());
    own_ = SharesHeld(traffic, servers_, 0, own);
    beside_ = SharesHeld(traffic, servers_, own, own + config_.cluster().workers());
  } else {
    const double share = ShardsOfHost() / config_.cluster().shards();
    own_ = {static_cast<int>(1 / share + 0.5), share, share};
  }
}

double ModelledCluster::WeightSeconds() const {
  return model().worker().weight() * static_cast<double>(workload_.weights);
}

double ModelledCluster::ShardsOfHost() const {
  const int shards = config_.cluster().shards();
  const int hosts = model().network().together() ? 1 : std::min(model().server().hosts(), shards);
  return static_cast<double>(shards) / hosts;
}

size_t ModelledCluster::HostOf(uint32_t shard) const {
  return options_.servers_on_workers ? groups_[shard].server : shard % hosts_.size();
}

double ModelledCluster::ThreadsOf(uint32_t shard) const {
  if (options_.servers_on_workers) return groups_[shard].shards;
  const size_t host = HostOf(shard);
  const size_t simulated = (groups_.size() - host + hosts_.size() - 1) / hosts_.size();
  return ShardsOfHost() / static_cast<double>(simulated);
}

void ModelledCluster::MakeHosts() {
  const SimNetwork& network = model().network();
  if (options_.servers_on_workers) {
    hosts_.resize(OwnServers() + config_.cluster().workers());
  } else {
    const double hosts = config_.cluster().shards() / ShardsOfHost();
    hosts_.resize(std::min(static_cast<size_t>(hosts + 0.5), groups_.size()));
  }
  for (uint32_t h = 0; h < hosts_.size(); ++h) {
    ServerHost& host = hosts_[h];
    const bool beside = options_.servers_on_workers && h >= OwnServers();
    const double link = beside ? SiteOf(h - OwnServers()).link() : network.server_link();
    if (link > 0) {
      host.in = std::make_shared<SharedResource>(&queue_, link, link);
      host.out = std::make_shared<SharedResource>(&queue_, link, link);
    }
    host.processors = network.together() && h > 0
                          ? hosts_[0].processors
                          : std::make_shared<SharedResource>(&queue_, model().server().cores(), 1);
  }
}

void ModelledCluster::MakeShards() {
  const SimServer& server = model().server();
  for (uint32_t s = 0; s < groups_.size(); ++s) {
    ShardCosts costs;
    costs.message = server.message();
    costs.byte = server.byte();
    costs.beside = server.beside();
    costs.times = ThreadsOf(s);
    costs.processors = hosts_[HostOf(s)].processors.get();
    shards_.push_back(std::make_unique<ModelledShard>(
        &queue_, s, config_, traffic_, costs,
        [this, s](PeerId to, std::shared_ptr<const Message> message, double bytes) {
          FromShard(s, to, std::move(message), bytes);
        }));
  }
}

void ModelledCluster::MakeGradients() {
  const double overlap = model().worker().overlap();
  const int slices = traffic_.placement.slices_size();
  gradients_.push_back({1 - overlap, 0, {}});
  for (size_t p = 0; p < kGradientParts; ++p) {
    GradientPart part;
    part.time = overlap / kGradientParts;
    part.encode = 1.0 / kGradientParts;
    // From the last layer to the first.
    const size_t begin = slices * p / kGradientParts, end = slices * (p + 1) / kGradientParts;
    for (size_t i = begin; i < end; ++i)
      part.slices.push_back(static_cast<uint32_t>(slices - 1 - i));
    gradients_.push_back(std::move(part));
  }
}

SharedResource* ModelledCluster::ProcessorsOf(uint32_t process) const {
  if (options_.servers_on_workers) return hosts_[OwnServers() + process].processors.get();
  return model().network().together() ? hosts_[0].processors.get() : nullptr;
}

void ModelledCluster::Spend(uint32_t process, double seconds, double threads,
                            EventQueue::Action done) {
  SharedResource* const processors = ProcessorsOf(process);
  if (processors != nullptr && seconds > 0) {
    processors->Run(seconds, threads, std::move(done));
  } else {
    queue_.After(Duration(static_cast<int64_t>(seconds * 1e9)), std::move(done));
  }
}

void ModelledCluster::SpendBeside(uint32_t process, double seconds) {
  SharedResource* const processors = ProcessorsOf(process);
  if (processors != nullptr && seconds > 0) processors->Run(seconds, 1, nullptr);
}

Route ModelledCluster::RouteTo(uint32_t process, uint32_t shard, bool up) const {
  const WorkerLinks& worker = links_[process];
  const ServerHost& host = hosts_[HostOf(shard)];
  double latency = SiteOf(process).latency();
  Route route;
  if (options_.servers_on_workers && HostOf(shard) >= OwnServers()) {
    const auto other = static_cast<uint32_t>(HostOf(shard)) - OwnServers();
    if (other == process) {
      if (!model().network().together()) latency = std::min(latency, kSharedMemory);
      route.latency = Duration(static_cast<int64_t>(latency * 1e9));
      return route;  // no link: what copying takes is in server.byte
    }
    if (model().network().sites_size() > 0) latency += SiteOf(other).latency();
  }
  route.worker_link = up ? worker.up.get() : worker.down.get();
  route.worker_times = groups_[shard].shards;
  route.server_link = up ? host.in.get() : host.out.get();
  route.server_times = ThreadsOf(shard);
  route.latency = Duration(static_cast<int64_t>(latency * 1e9));
  return route;
}

std::vector<std::unique_ptr<Connection>> ModelledCluster::ConnectToShards(uint32_t process) {
  std::vector<std::unique_ptr<Connection>> ways;
  for (uint32_t s = 0; s < groups_.size(); ++s) {
    ways.push_back(std::make_unique<Connection>(&queue_, RouteTo(process, s, true)));
  }
  return ways;
}

void ModelledCluster::StartWorker() {
  const auto process = static_cast<uint32_t>(workers_.size());
  WorkerLinks& links = links_.emplace_back();
  const double link = SiteOf(process).link();
  if (options_.servers_on_workers) {
    const ServerHost& host = hosts_[OwnServers() + process];
    links.up = host.out;
    links.down = host.in;
  } else if (link > 0) {
    links.up = std::make_shared<SharedResource>(&queue_, link, link);
    links.down = std::make_shared<SharedResource>(&queue_, link, link);
  }
  for (uint32_t s = 0; s < groups_.size(); ++s) {
    links.from_shards.push_back(std::make_unique<Connection>(&queue_, RouteTo(process, s, false)));
  }
  workers_.push_back(std::make_unique<ModelledWorker>(this, process));
  workers_.back()->Start();
  if (model().failures().every() > 0) PlanDeath(workers_.back().get());
}

void ModelledCluster::PlanDeath(ModelledWorker* worker) {
  const double after = -std::log(1 - chance_.Unit()) * model().failures().every();
  queue_.After(Duration(static_cast<int64_t>(std::min(after, 1e8) * 1e9)), [this, worker] {
    worker->Die();
    ++deaths_;
    queue_.After(Duration(static_cast<int64_t>(model().failures().restart() * 1e9)),
                 [this] { StartWorker(); });
  });
}

void ModelledCluster::Tick() {
  queue_.After(kTick, [this] { Tick(); });
  Effects effects;
  coordinator_.Tick(queue_.now(), &effects);
  GaveUp(Apply(std::move(effects)));
}

absl::Status ModelledCluster::Apply(Effects effects) {
  for (const ShardCommand& command : effects.commands) {
    if (const auto* begun = std::get_if<BeginSegment>(&command)) {
      dealt_ = static_cast<int64_t>(begun->segment.first_clock() + begun->segment.clocks());
    }
    if (std::holds_alternative<TakeCheckpoint>(command))
      continue;  // the last one: training is over
    for (const auto& shard : shards_) PSGD_RETURN_IF_ERROR(shard->Execute(command));
  }
  return absl::OkStatus();
}

absl::StatusOr<JoinReply> ModelledCluster::Join(const JoinRequest& request) {
  Effects effects;
  auto reply = coordinator_.Join(request, queue_.now(), &effects);
  PSGD_RETURN_IF_ERROR(Apply(std::move(effects)));
  return reply;
}

absl::Status ModelledCluster::Register(const WorkerKey& key) {
  RegisterRequest request;
  *request.mutable_key() = key;
  *request.mutable_model() = workload_.model;
  request.set_batches_per_epoch(BatchesOf(workload_));
  Effects effects;
  const std::vector<std::string> endpoints(config_.cluster().shards(), "sim://");
  PSGD_RETURN_IF_ERROR(coordinator_.Register(request, endpoints, queue_.now(), &effects).status());
  return Apply(std::move(effects));
}

absl::StatusOr<NextSegmentReply> ModelledCluster::NextSegment(const NextSegmentRequest& request) {
  Effects effects;
  auto reply = coordinator_.NextSegment(request, queue_.now(), &effects);
  PSGD_RETURN_IF_ERROR(Apply(std::move(effects)));
  return reply;
}

absl::Status ModelledCluster::Evaluated(const WorkerKey& key, double epoch) {
  EvaluatedRequest request;
  *request.mutable_key() = key;
  request.mutable_result()->set_epoch(epoch);
  Effects effects;
  PSGD_RETURN_IF_ERROR(coordinator_.Evaluated(request, queue_.now(), &effects));
  return Apply(std::move(effects));
}

absl::Status ModelledCluster::Heartbeat(const WorkerKey& key, const WorkerReport& report) {
  HeartbeatRequest request;
  *request.mutable_key() = key;
  *request.mutable_report() = report;
  return coordinator_.Heartbeat(request, queue_.now()).status();
}

void ModelledCluster::SendToShard(ModelledWorker* worker, uint32_t shard, const Message& message,
                                  Connection* way) {
  const double bytes = WireBytes(message), payload = static_cast<double>(message.PayloadBytes());
  pushed_ += (bytes - payload) * groups_[shard].shards + payload * groups_[shard].push_scale;
  auto copy = std::make_shared<Message>(message);
  way->Send(bytes, [this, shard, process = worker->process(), copy = std::move(copy), bytes] {
    shards_[shard]->Receive(process, copy, bytes);
  });
}

void ModelledCluster::FromShard(uint32_t shard, PeerId to, std::shared_ptr<const Message> message,
                                double bytes) {
  const auto payload = static_cast<double>(message->PayloadBytes());
  pulled_ += (bytes - payload) * groups_[shard].shards + payload * groups_[shard].pull_scale;
  links_[to].from_shards[shard]->Send(bytes, [this, shard, to, message = std::move(message)] {
    workers_[to]->Receive(shard, *message);
  });
}

bool ModelledCluster::Over() const {
  if (!Dealt()) return false;
  return std::ranges::all_of(workers_,
                             [](const auto& worker) { return worker->dead() || worker->idle(); });
}

absl::StatusOr<Prediction> ModelledCluster::Run() {
  const Time began = SteadyNow();
  start_ = queue_.now();
  links_.reserve(config_.cluster().workers());
  for (int w = 0; w < config_.cluster().workers(); ++w) StartWorker();
  if (model().failures().every() > 0) Tick();
  while (gave_up_.ok() && !Over()) {
    if (!queue_.RunOne()) return absl::InternalError("the simulation has come to a stop");
  }
  PSGD_RETURN_IF_ERROR(gave_up_);
  Prediction prediction = Result();
  prediction.took = Seconds(SteadyNow() - began);
  return prediction;
}

namespace {
double UtilisationOf(const std::shared_ptr<SharedResource>& resource) {
  return resource == nullptr ? 0 : resource->Utilisation();
}
}  // namespace

Prediction ModelledCluster::Result() const {
  Prediction result;
  result.workers = config_.cluster().workers();
  result.shards = config_.cluster().shards();
  result.batch = config_.data().batch();
  result.clocks = Clocks();
  result.simulated_shards = groups_.size();
  result.deaths = deaths_;
  result.own = own_;
  result.beside = beside_;
  result.simulated_seconds = Seconds(queue_.now() - start_);
  AddTimes(&result);
  AddShares(&result);
  for (const auto& worker : workers_) {
    result.pull_staleness.Merge(worker->stats().pull_staleness);
    result.resent += worker->stats().resent;
  }
  for (const auto& shard : shards_) result.push_staleness.Merge(shard->stats().push_staleness);
  return result;
}

void ModelledCluster::AddTimes(Prediction* result) const {
  // Without the first steps, which find the links empty, and the last, when some have nothing left
  // to do. Whole clocks: synchronous workers end theirs together.
  const auto workers = static_cast<size_t>(result->workers);
  const size_t clocks = clock_ends_.size() / workers, edge = std::max<size_t>(1, clocks / 10);
  if (clocks < 3) return;
  const size_t first = edge * workers - 1, last = (clocks - edge) * workers - 1;
  const double seconds = Seconds(clock_ends_[last].at - clock_ends_[first].at);
  const double batch = result->batch;
  uint64_t steps = 0;  // the last clock of an epoch may have few
  for (size_t i = first + 1; i <= last; ++i) steps += clock_ends_[i].steps;
  result->samples_per_second = seconds <= 0 ? 0 : static_cast<double>(steps) * batch / seconds;

  ModelledWorker::Times sum;
  for (const auto& worker : workers_) {
    sum.steps += worker->times().steps;
    sum.compute += worker->times().compute;
    sum.encode += worker->times().encode;
    sum.wait += worker->times().wait;
  }
  const double n = static_cast<double>(std::max<uint64_t>(sum.steps, 1));
  result->compute = sum.compute / n;
  result->encode = sum.encode / n;
  result->wait = sum.wait / n;
  result->step =
      result->samples_per_second == 0 ? 0 : batch * result->workers / result->samples_per_second;
  result->bytes_pushed_a_step = pushed_ / n;
  result->bytes_pulled_a_step = pulled_ / n;

  const Config& asked = workload_.config;
  const double batches = static_cast<double>(workload_.samples / std::max(1, asked.data().batch()));
  double run_steps = batches * asked.train().epochs();
  double epochs = asked.train().epochs();
  if (asked.train().max_steps() > 0) {
    const double most = static_cast<double>(asked.train().max_steps()) * result->workers;
    if (most < run_steps) {
      epochs = std::ceil(most / std::max(1.0, batches));
      run_steps = most;
    }
  }
  result->bytes_pushed = result->bytes_pushed_a_step * run_steps;
  result->bytes_pulled = result->bytes_pulled_a_step * run_steps;
  if (result->samples_per_second == 0) return;
  // Workers that share a host share it as they start, too.
  const SimWorker& worker = model().worker();
  const double crowd =
      model().network().together() ? std::max(1.0, result->workers / model().server().cores()) : 1;
  result->run_seconds = worker.start() * crowd + run_steps * batch / result->samples_per_second +
                        epochs * worker.evaluation();
  result->run_samples_per_second = run_steps * batch / result->run_seconds;
}

void ModelledCluster::AddShares(Prediction* result) const {
  for (const auto& shard : shards_) {
    result->shard_busy = std::max(result->shard_busy, shard->busy() / result->simulated_seconds);
  }
  for (size_t h = 0; h < hosts_.size(); ++h) {
    const ServerHost& host = hosts_[h];
    if (!options_.servers_on_workers || h < OwnServers()) {
      result->server_link_in = std::max(result->server_link_in, UtilisationOf(host.in));
      result->server_link_out = std::max(result->server_link_out, UtilisationOf(host.out));
    }
    result->processors = std::max(result->processors, UtilisationOf(host.processors));
  }
  const auto workers = static_cast<double>(links_.size());
  for (const WorkerLinks& links : links_) {
    result->worker_link_in += UtilisationOf(links.down) / workers;
    result->worker_link_out += UtilisationOf(links.up) / workers;
  }
}

}  // namespace psgd::sim
