#include "bench/transport_bench.h"

#include <poll.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "bench/local_address.h"
#include "bench/machine_limits.h"
#include "bench/own_core.h"
#include "common/open_files.h"
#include "common/status.h"
#include "net/transport.h"

namespace psgd {
namespace {

constexpr int kPatience = 30'000;  // ms; a side that is silent for this long is lost
constexpr int kWarmUp = 20;        // messages that fault buffers in and open windows

// The results of the connecting side, sent through a pipe.
struct Result {
  bool verified = false;
  double push_seconds = 0;
  double pull_seconds = 0;
};

// A pipe whose ends close with it.
struct Pipe {
  Pipe() { ok = ::pipe(ends) == 0; }
  ~Pipe() {
    if (ok) ::close(ends[0]), ::close(ends[1]);
  }
  bool Read(void* to, size_t size) {
    pollfd item{.fd = ends[0], .events = POLLIN, .revents = 0};
    return ::poll(&item, 1, kPatience) == 1 &&
           ::read(ends[0], to, size) == static_cast<ssize_t>(size);
  }
  bool Write(const void* from, size_t size) {
    return ::write(ends[1], from, size) == static_cast<ssize_t>(size);
  }
  bool ok;
  int ends[2];
};

using AddressText = char[128];

TransportOptions OptionsFor(const TransportBenchOptions& bench) {
  TransportOptions options;
  options.max_message_bytes = bench.message_bytes + (1u << 20);
  return options;
}

Message PayloadMessage(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  Message message;
  message.payloads.push_back(Bytes::Adopt(std::move(bytes)));
  return message;
}

bool SamePayload(const Message& a, const Message& b) {
  return a.payloads.size() == 1 && b.payloads.size() == 1 &&
         a.payloads[0].size() == b.payloads[0].size() &&
         std::memcmp(a.payloads[0].data(), b.payloads[0].data(), a.payloads[0].size()) == 0;
}

void MustSend(Endpoint& endpoint, PeerId to, const Message& message) {
  while (absl::IsResourceExhausted(endpoint.Send(to, message))) ::sched_yield();
}

// The shard's side: a push is acknowledged, a pull answered, any other message echoed. A message
// without a body ends the loop.
int Serve(const TransportBenchOptions& bench, Pipe& address_pipe) {
  auto transport = MakeTransport(bench.transport, OptionsFor(bench));
  if (!transport.ok()) return 1;
  const std::string where = LocalAddress(bench.transport);
  auto endpoint = (*transport)->Listen(where);
  if (!endpoint.ok()) return 1;
  AddressText address{};
  std::strncpy(address, (*endpoint)->address().c_str(), sizeof(address) - 1);
  if (!address_pipe.Write(address, sizeof(address))) return 1;

  Message reply = PayloadMessage(bench.message_bytes);
  reply.header.mutable_pull_reply()->set_last(true);
  Message ack;
  ack.header.mutable_push_ack();
  while (true) {
    auto received = (*endpoint)->Receive(Milliseconds(kPatience));
    if (!received) return 1;
    switch (received->message.header.body_case()) {
      case DataHeader::kPush:
        MustSend(**endpoint, received->from, ack);
        break;
      case DataHeader::kPull:
        MustSend(**endpoint, received->from, reply);
        break;
      case DataHeader::kPullReply:
        MustSend(**endpoint, received->from, received->message);
        break;
      default:
        return 0;
    }
  }
}

// Sends `count` messages with at most `window` unanswered. False if the other side falls silent.
bool Exchange(Endpoint& endpoint, const Message& message, int count, int window) {
  int sent = 0;
  for (int answered = 0; answered < count; ++answered) {
    for (; sent < count && sent - answered < window; ++sent) MustSend(endpoint, 0, message);
    if (!endpoint.Receive(Milliseconds(kPatience))) return false;
  }
  return true;
}

// The worker's side: verifies, then times both directions.
int Work(const TransportBenchOptions& bench, Pipe& address_pipe, Pipe& result_pipe) {
  AddressText address;
  auto transport = MakeTransport(bench.transport, OptionsFor(bench));
  if (!transport.ok() || !address_pipe.Read(address, sizeof(address))) return 1;
  auto endpoint = (*transport)->Connect({address});
  if (!endpoint.ok()) return 1;
  Endpoint& peer = **endpoint;

  std::vector<std::unique_ptr<Endpoint>> silent;
  for (int i = 0; i < bench.silent; ++i) {
    auto other = (*transport)->Connect({address});
    if (!other.ok()) return 1;
    silent.push_back(*std::move(other));
    Message greeting;
    greeting.header.mutable_push()->set_seq(1);
    MustSend(*silent.back(), 0, greeting);
    if (!silent.back()->Receive(Milliseconds(kPatience))) return 1;
  }

  Message push = PayloadMessage(bench.message_bytes);
  Message pull;
  pull.header.mutable_pull();
  Message echo = push;
  echo.header.mutable_pull_reply();
  push.header.mutable_push()->set_seq(1);

  Result result;
  MustSend(peer, 0, echo);
  auto echoed = peer.Receive(Milliseconds(kPatience));
  MustSend(peer, 0, pull);
  auto pulled = peer.Receive(Milliseconds(kPatience));
  result.verified =
      echoed && SamePayload(echoed->message, push) && pulled && SamePayload(pulled->message, push);
  if (result.verified) {
    const auto timed = [&](const Message& message, double* seconds) {
      if (!Exchange(peer, message, kWarmUp, bench.window)) return false;
      const Time start = SteadyNow();
      const bool done = Exchange(peer, message, bench.messages, bench.window);
      *seconds = Seconds(SteadyNow() - start);
      return done;
    };
    result.verified = timed(push, &result.push_seconds) && timed(pull, &result.pull_seconds);
  }
  MustSend(peer, 0, Message{});
  return result_pipe.Write(&result, sizeof(result)) ? 0 : 1;
}

// Runs `side` in its own process, on its own core, IO threads included.
template <typename Side>
pid_t Fork(int core, Side side) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  PinToCore(core);
  ::_exit(side());
}

}  // namespace

absl::StatusOr<std::vector<BenchRow>> RunTransportBench(const TransportBenchOptions& options) {
  const double limit = MeasureMemcpy();
  if (options.silent > 0) RaiseOpenFilesLimit();
  Pipe address_pipe;
  Pipe result_pipe;
  if (!address_pipe.ok || !result_pipe.ok) {
    return UnavailableError("no pipes: ", OpenFilesText());
  }
  const pid_t server = Fork(0, [&] { return Serve(options, address_pipe); });
  const pid_t worker = Fork(1, [&] { return Work(options, address_pipe, result_pipe); });
  Result result;
  const bool finished = server > 0 && worker > 0 && result_pipe.Read(&result, sizeof(result));
  for (const pid_t pid : {worker, server}) {
    if (pid <= 0) continue;
    if (!finished) ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  if (!finished) {
    return absl::DeadlineExceededError(
        "the transport benchmark got no result: a side could not start, or fell silent");
  }

  std::vector<BenchRow> rows;
  const std::string transport =
      absl::AsciiStrToLower(ClusterConfig::Transport_Name(options.transport));
  for (const auto& [name, seconds] :
       {std::pair{"push", result.push_seconds}, std::pair{"pull", result.pull_seconds}}) {
    BenchRow row;
    row.bench = "transport";
    row.name = absl::StrCat(transport, "/", name);
    row.verified = result.verified;
    row.limit_gbps = limit;
    row.extra["silent"] = options.silent;
    row.extra["message_bytes"] = static_cast<double>(options.message_bytes);
    if (result.verified) {
      row.extra["messages_per_second"] = options.messages / seconds;
      row.gbps = row.extra["messages_per_second"] * row.extra["message_bytes"] / 1e9;
      row.ratio = row.gbps / limit;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace psgd
