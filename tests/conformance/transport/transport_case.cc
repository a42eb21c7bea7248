#include "tests/conformance/transport/transport_case.h"

#include <unistd.h>

#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace psgd {

std::string KindName(const testing::TestParamInfo<Kind>& info) {
  switch (info.param) {
    case Kind::kZmqTcp:
      return "ZmqTcp";
    case Kind::kZmqIpc:
      return "ZmqIpc";
    case Kind::kGrpc:
      return "Grpc";
    case Kind::kInProcess:
      return "InProcess";
  }
  return "Unknown";
}

std::unique_ptr<Transport> TransportTest::NewTransport(const TransportOptions& options) const {
  switch (GetParam()) {
    case Kind::kZmqTcp:
      return *MakeTransport(ClusterConfig::ZMQ, options);
    case Kind::kZmqIpc:
      return *MakeTransport(ClusterConfig::IPC, options);
    case Kind::kGrpc:
      return *MakeTransport(ClusterConfig::GRPC, options);
    case Kind::kInProcess:
      return MakeInProcessTransport(options);
  }
  return nullptr;
}

std::string TransportTest::AnyAddress() {
  const std::string name = absl::StrCat("psgd-", ::getpid(), "-", next_name_++);
  switch (GetParam()) {
    case Kind::kZmqTcp:
    case Kind::kGrpc:
      return "tcp://127.0.0.1:0";
    case Kind::kZmqIpc:
      return absl::StrCat("ipc://", testing::TempDir(), name);
    case Kind::kInProcess:
      return name;
  }
  return "";
}

std::string TransportTest::FreeAddress() {
  return (*NewTransport()->Listen(AnyAddress()))->address();
}

Pair Connected(Transport& transport, const std::string& address) {
  Pair pair;
  pair.listener = *transport.Listen(address);
  pair.connector = *transport.Connect({pair.listener->address()});
  return pair;
}

namespace {
// Cheap, and different at every position and for every message.
std::byte PatternByte(uint64_t seq, size_t payload, size_t i) {
  return static_cast<std::byte>((seq * 131 + payload * 31 + i + (i >> 8)) & 0xff);
}
}  // namespace

Message MakePush(uint64_t seq, const std::vector<size_t>& payload_sizes) {
  Message message;
  message.header.set_worker(7);
  message.header.mutable_push()->set_seq(seq);
  for (size_t p = 0; p < payload_sizes.size(); ++p) {
    std::vector<std::byte> bytes(payload_sizes[p]);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = PatternByte(seq, p, i);
    message.payloads.push_back(Bytes::Adopt(std::move(bytes)));
  }
  return message;
}

testing::AssertionResult IsPush(const Message& message, uint64_t seq,
                                const std::vector<size_t>& payload_sizes) {
  if (message.header.push().seq() != seq) {
    return testing::AssertionFailure() << "seq " << message.header.push().seq() << ", not " << seq;
  }
  if (message.header.worker() != 7) return testing::AssertionFailure() << "another worker";
  const Message expected = MakePush(seq, payload_sizes);
  if (message.payloads.size() != payload_sizes.size()) {
    return testing::AssertionFailure() << message.payloads.size() << " payloads";
  }
  for (size_t p = 0; p < payload_sizes.size(); ++p) {
    const ByteSpan got = message.payloads[p].span();
    const ByteSpan want = expected.payloads[p].span();
    if (got.size() != want.size() ||
        (!want.empty() && std::memcmp(got.data(), want.data(), want.size()) != 0)) {
      return testing::AssertionFailure() << "payload " << p << " differs";
    }
  }
  return testing::AssertionSuccess();
}

std::optional<Received> ReceiveSoon(Endpoint& endpoint) {
  const Time deadline = SteadyNow() + kSoon;
  while (SteadyNow() < deadline) {
    if (auto received = endpoint.Receive(deadline - SteadyNow())) return received;
  }
  return std::nullopt;
}

bool Eventually(const std::function<bool()>& condition) {
  const Time deadline = SteadyNow() + kSoon;
  while (!condition()) {
    if (SteadyNow() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

INSTANTIATE_TEST_SUITE_P(All, TransportTest,
                         testing::Values(Kind::kZmqTcp, Kind::kZmqIpc, Kind::kGrpc,
                                         Kind::kInProcess),
                         KindName);

}  // namespace psgd
