#include "bench/push_pull_bench.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "bench/local_address.h"
#include "bench/machine_limits.h"
#include "bench/own_core.h"
#include "bench/process_usage.h"
#include "common/freed_memory.h"
#include "net/transport.h"
#include "server/control/copy_thread.h"
#include "server/shard/placement.h"
#include "tests/unit/optimizers/reference_optimizers.h"
#include "worker/session.h"

namespace psgd {
namespace {

constexpr double kLearningRate = 1;

Config MakeConfig(const PushPullBenchOptions& options) {
  Config config;
  config.mutable_consistency()->set_staleness(options.staleness);
  config.mutable_consistency()->set_reduction(ConsistencyConfig::SUM);
  *config.mutable_optimizer() = options.optimizer;
  config.mutable_cluster()->set_transport(options.transport);
  config.mutable_train()->set_epochs(1);
  return config;
}

ModelSpec MakeModel(const PushPullBenchOptions& options) {
  ModelSpec model;
  for (int i = 0; i < options.slices; ++i) {
    ParameterSpec* parameter = model.add_parameters();
    parameter->set_name(absl::StrCat("p", i));
    parameter->add_shape(options.slice_bytes / sizeof(float));
  }
  return model;
}

// A leading copy, as a server runs it.
class ServedCopy {
 public:
  ServedCopy(const PushPullBenchOptions& options, std::unique_ptr<Endpoint> port)
      : port_(std::move(port)), copy_(Options(), Fresh(options)) {
    AssignedCopy assigned;
    assigned.set_epoch(1);
    assigned.set_leader(1);
    assigned.add_in_sync(1);
    copy_.Have(assigned, 1);
  }
  ~ServedCopy() { copy_.Stop(); }

  // Waits until the command is done.
  void Execute(ShardCommand command) {
    std::unique_lock lock(mutex_);
    copy_.Execute(std::move(command), ++given_, 1);
    changed_.wait(lock, [&] { return done_ == given_; });
  }

 private:
  static std::unique_ptr<DurableShard> Fresh(const PushPullBenchOptions& options) {
    DurableShardOptions shard;
    shard.shard.config = MakeConfig(options);
    if (options.apart) shard.shard.reply_bytes = 1;
    return std::make_unique<DurableShard>(std::move(shard));
  }
  CopyThreadOptions Options() {
    CopyThreadOptions options;
    options.core.silence = std::chrono::seconds(1);
    options.listen = [this]() -> absl::StatusOr<std::unique_ptr<Endpoint>> {
      return std::move(port_);
    };
    options.advertised = [](const std::string& address) { return address; };
    options.callbacks.on_state = [](const CopyState&) {};
    options.callbacks.on_order = [this](uint32_t, const CopyCore::OrderDone& done) {
      std::lock_guard lock(mutex_);
      done_ = done.number;
      changed_.notify_all();
    };
    return options;
  }

  std::unique_ptr<Endpoint> port_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  uint64_t given_ = 0, done_ = 0;
  CopyThread copy_;
};

// Serves one shard until the pipe from the parent closes.
[[noreturn]] void ServeShard(const PushPullBenchOptions& options, const Placement& placement,
                             const std::string& address, int ready_fd, int end_fd) {
  TransportOptions port;
  port.send_queue_bytes = kPortQueueBytes;
  auto transport = MakeTransport(options.transport, port);
  auto endpoint = transport.ok() ? (*transport)->Listen(address) : transport.status();
  if (!endpoint.ok()) {
    const std::string error = endpoint.status().ToString();
    (void)!write(ready_fd, error.data(), error.size());
    _exit(1);
  }
  {
    const std::string ready = absl::StrCat("@", (*endpoint)->address());
    ServedCopy server(options, *std::move(endpoint));
    HyperParameters hyper;
    hyper.set_learning_rate(kLearningRate);
    server.Execute(InstallModel{std::make_shared<ModelSpec>(MakeModel(options)),
                                std::make_shared<Placement>(placement), nullptr, hyper});
    BeginSegment begin;
    begin.segment.set_clocks(1u << 30);
    for (int w = 0; w < options.workers; ++w) {
      AdmitWorker admit;
      admit.key.set_worker(w);
      admit.key.set_incarnation(1);
      server.Execute(admit);
      begin.segment.add_workers(w);
    }
    server.Execute(begin);
    (void)!write(ready_fd, ready.data(), ready.size());
    close(ready_fd);
    char byte;
    (void)!read(end_fd, &byte, 1);
  }
  _exit(0);
}

// The weight that so many updates with this gradient must make of 0.
float Expected(const OptimizerConfig& optimizer, uint64_t updates, float gradient) {
  ReferenceElement element;
  for (uint64_t i = 1; i <= updates; ++i) {
    ReferenceUpdate(optimizer, {.learning_rate = kLearningRate, .step = i, .decays = false},
                    {&gradient, 1}, {&element, 1});
  }
  return static_cast<float>(element.weight);
}

// What one kind of exchange took in the counted rounds.
struct Exchange {
  std::string name;
  double payload_bytes = 0;  // of a slice
  std::function<absl::Status()> run;
  std::vector<double> seconds;  // of each round
  uint64_t messages = 0;        // of the first worker, sent and received
  ProcessUsage worker, server;

  double MedianSeconds() {
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
  }
};

struct Rates {
  double bytes_a_round = 0;
  bool verified = false;
  std::vector<Exchange> exchanges;
};

absl::StatusOr<Rates> Drive(const PushPullBenchOptions& options, Placement placement,
                            const std::string& address, pid_t server) {
  placement.add_endpoints(address);
  PSGD_ASSIGN_OR_RETURN(auto transport, MakeTransport(options.transport, {}));
  std::vector<std::unique_ptr<SessionCore>> cores;
  std::vector<std::unique_ptr<Session>> sessions;
  const Endpoint* first = nullptr;
  for (int w = 0; w < options.workers; ++w) {
    PSGD_ASSIGN_OR_RETURN(auto endpoint, transport->Connect({address}));
    if (w == 0) first = endpoint.get();
    SessionOptions session;
    if (options.apart) session.fuse_bytes = 1;
    session.key.set_worker(w);
    session.key.set_incarnation(1);
    cores.push_back(std::make_unique<SessionCore>(session, placement, SteadyNow()));
    sessions.push_back(std::make_unique<Session>(cores.back().get(), std::move(endpoint),
                                                 [] { return absl::OkStatus(); }));
  }
  // Every gradient is all ones, which all codecs except the sparse ones carry exactly.
  const uint32_t elements = options.slice_bytes / sizeof(float);
  const std::vector<float> ones(elements, 1.0f);
  PSGD_ASSIGN_OR_RETURN(auto codec, MakeCodec(options.codec));
  EncodeInput input;
  input.gradient = ones;
  SliceShape shape;
  shape.elements = elements;
  // Each slice has bytes of its own, as in a model: the same bytes again would come from the cache.
  std::vector<Bytes> payloads;
  for (int i = 0; i < options.slices; ++i) {
    std::vector<std::byte> encoded;
    codec->NewEncoder(shape)->Encode(input, &encoded);
    payloads.push_back(Bytes::Adopt(std::move(encoded)));
  }
  PSGD_ASSIGN_OR_RETURN(auto reader, codec->Open(payloads[0].span(), shape));
  std::vector<float> decoded(elements);
  reader->AddBlock(1.0f, decoded);

  std::vector<std::vector<float>> weights(static_cast<size_t>(options.slices));  // of the caller
  for (std::vector<float>& slice : weights) slice.resize(elements);
  uint64_t clock = 0;
  const auto send_pushes = [&] {
    ++clock;
    for (size_t w = 0; w < sessions.size(); ++w) {
      for (int i = 0; i < options.slices; ++i) {
        sessions[w]->Push(clock, {static_cast<uint32_t>(i), codec->id(), payloads[i]});
      }
      cores[w]->EndClock(clock, SteadyNow());
      sessions[w]->Send();
    }
  };
  const auto wait_for_pushes = [&]() -> absl::Status {
    for (size_t w = 0; w < sessions.size(); ++w) {
      PSGD_RETURN_IF_ERROR(sessions[w]->WaitUntil([&] { return cores[w]->AllAcknowledged(); }));
    }
    return absl::OkStatus();
  };
  const auto push_round = [&]() -> absl::Status {
    send_pushes();
    return wait_for_pushes();
  };
  const auto pull_round = [&]() -> absl::Status {
    for (int w = 0; w < options.workers; ++w) {
      cores[w]->Pull(clock, SteadyNow());
      sessions[w]->Send();
    }
    for (int w = 0; w < options.workers; ++w) {
      PSGD_RETURN_IF_ERROR(sessions[w]->WaitUntil([&] {
        // As they come, so that their messages are free.
        while (options.copy) {
          const auto arrived = cores[w]->TakeSlice();
          if (!arrived) break;
          const Bytes& from = arrived->second.payload;
          std::memcpy(weights[arrived->first].data(), from.data(), from.size());
        }
        return !cores[w]->pulling();
      }));
    }
    return absl::OkStatus();
  };
  // As a trainer: it asks for the weights of its clock before its pushes have left.
  const auto both_round = [&]() -> absl::Status {
    send_pushes();
    PSGD_RETURN_IF_ERROR(pull_round());
    return wait_for_pushes();
  };
  Rates rates;
  rates.bytes_a_round = static_cast<double>(options.slice_bytes) * options.slices * options.workers;
  const double pushed = static_cast<double>(payloads[0].size()), pulled = options.slice_bytes;
  rates.exchanges = {{.name = "push", .payload_bytes = pushed, .run = push_round},
                     {.name = "pull", .payload_bytes = pulled, .run = pull_round},
                     {.name = "both", .payload_bytes = pushed + pulled, .run = both_round}};
  // The first half of the rounds warms up.
  const auto run = [&](Exchange& exchange, int round) -> absl::Status {
    if (options.pause_ms > 0) std::this_thread::sleep_for(Milliseconds(options.pause_ms));
    const EndpointStats before = first->stats();
    const Time start = SteadyNow();
    PSGD_RETURN_IF_ERROR(exchange.run());
    if (round < options.rounds) return absl::OkStatus();
    exchange.seconds.push_back(Seconds(SteadyNow() - start));
    const EndpointStats after = first->stats();
    exchange.messages += after.messages_sent + after.messages_received - before.messages_sent -
                         before.messages_received;
    return absl::OkStatus();
  };
  if (!options.profile) {
    for (int round = 0; round < 2 * options.rounds; ++round) {
      for (Exchange& exchange : rates.exchanges) PSGD_RETURN_IF_ERROR(run(exchange, round));
    }
  } else {
    for (Exchange& exchange : rates.exchanges) {
      // One look before and after all rounds: a look at a process takes longer than a small
      // message.
      ProcessUsage worker, its_server;
      for (int round = 0; round < 2 * options.rounds; ++round) {
        if (round == options.rounds) its_server = UsageOf(server), worker = UsageOf(getpid());
        PSGD_RETURN_IF_ERROR(run(exchange, round));
      }
      exchange.worker = UsageOf(getpid()) - worker;
      exchange.server = UsageOf(server) - its_server;
    }
  }
  rates.verified = true;
  const std::vector<PulledSlice> last_pulled = cores[0]->TakePulled();
  std::map<float, float> expected;  // by gradient
  for (size_t s = 0; s < last_pulled.size(); ++s) {
    const auto* last = options.copy ? weights[s].data()
                                    : reinterpret_cast<const float*>(last_pulled[s].payload.data());
    for (uint32_t i = 0; i < elements && rates.verified; ++i) {
      const auto [entry, is_new] = expected.try_emplace(decoded[i]);
      if (is_new) {
        const uint64_t updates = clock * static_cast<uint64_t>(options.workers);
        entry->second = Expected(options.optimizer, updates, decoded[i]);
      }
      rates.verified = std::abs(last[i] - entry->second) <= 1e-4f * std::abs(entry->second);
    }
  }
  return rates;
}

}  // namespace

absl::StatusOr<std::vector<BenchRow>> RunPushPullBench(const PushPullBenchOptions& options) {
  const Placement placement = PlaceSlices(MakeModel(options), 1, options.slice_bytes);
  int ready[2], end[2];
  if (pipe(ready) != 0 || pipe(end) != 0) return absl::InternalError("cannot make a pipe");
  const std::string address = LocalAddress(options.transport);
  const FreedMemoryKeeper keeper;  // of both processes, as servers and workers have it
  const pid_t child = fork();
  if (child < 0) return absl::InternalError("cannot fork the server side");
  if (options.pin) PinToCore(child == 0 ? 0 : 1);
  if (child == 0) {
    close(ready[0]);
    close(end[1]);
    ServeShard(options, placement, address, ready[1], end[0]);
  }
  close(ready[1]);
  close(end[0]);
  char text[512] = {};
  const ssize_t length = read(ready[0], text, sizeof text - 1);
  close(ready[0]);
  absl::StatusOr<Rates> rates =
      length > 1 && text[0] == '@'
          ? Drive(options, placement, text + 1, child)
          : absl::StatusOr<Rates>(absl::InternalError(absl::StrCat("the server side: ", text)));
  close(end[1]);
  waitpid(child, nullptr, 0);
  if (!rates.ok()) return rates.status();

  const double limit = MeasureMemcpy();
  const bool is_whole = options.slice_bytes % 1024 == 0;
  const std::string where = absl::StrCat(
      absl::AsciiStrToLower(ClusterConfig::Transport_Name(options.transport)), "/",
      is_whole ? options.slice_bytes / 1024 : options.slice_bytes, is_whole ? "KiB" : "B");
  std::vector<BenchRow> rows;
  for (Exchange& exchange : rates->exchanges) {
    BenchRow& row = rows.emplace_back();
    row.bench = "push-pull";
    row.name = absl::StrCat(exchange.name, "/", where);
    const double seconds = exchange.MedianSeconds();
    row.gbps = rates->bytes_a_round / seconds / 1e9;
    row.limit_gbps = limit;
    row.ratio = row.gbps / limit;
    row.verified = rates->verified;
    row.extra["workers"] = options.workers;
    row.extra["slices"] = options.slices;
    row.extra["payload_bytes"] = exchange.payload_bytes;
    row.extra["in_flight"] = options.slices * options.workers;
    row.extra["messages"] = static_cast<double>(exchange.messages) / options.rounds;
    row.extra["exchange_us"] = 1e6 * seconds;
    if (!options.profile) continue;
    const double slices = static_cast<double>(options.rounds) * options.slices * options.workers;
    for (const auto& [side, usage] :
         {std::pair("worker", &exchange.worker), std::pair("server", &exchange.server)}) {
      row.extra[absl::StrCat(side, "_us")] = 1e6 * usage->cpu_seconds / slices;
      row.extra[absl::StrCat(side, "_kernel_us")] = 1e6 * usage->kernel_seconds / slices;
      row.extra[absl::StrCat(side, "_switches")] = usage->switches / slices;
      row.extra[absl::StrCat(side, "_faults")] = usage->faults / slices;
    }
  }
  return rows;
}

}  // namespace psgd
