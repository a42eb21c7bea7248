#include "tests/conformance/transport/transport_case.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/certificates/certificates.h"
#include "tests/fakes/in_process/in_process_transport.h"

namespace psgd {

std::string KindName(const testing::TestParamInfo<Kind>& info) {
  switch (info.param) {
    case Kind::kZmqTcp:
      return "ZmqTcp";
    case Kind::kIpc:
      return "Ipc";
    case Kind::kGrpc:
      return "Grpc";
    case Kind::kInProcess:
      return "InProcess";
    case Kind::kCurveTcp:
      return "CurveTcp";
    case Kind::kSecuredIpc:
      return "SecuredIpc";
    case Kind::kTls:
      return "Tls";
    case Kind::kAuto:
      return "Auto";
    case Kind::kUcx:
      return "Ucx";
    case Kind::kUcxInAuto:
      return "UcxInAuto";
  }
  return "Unknown";
}

std::unique_ptr<Transport> TransportTest::NewTransport(const TransportOptions& options) const {
  switch (GetParam()) {
    case Kind::kZmqTcp:
      return *MakeTransport(ClusterConfig::ZMQ, options);
    case Kind::kIpc:
      return *MakeTransport(ClusterConfig::IPC, options);
    case Kind::kGrpc:
      return *MakeTransport(ClusterConfig::GRPC, options);
    case Kind::kInProcess:
      return MakeInProcessTransport(options);
    case Kind::kCurveTcp:
      return std::make_unique<SecuredTransport>(ClusterConfig::ZMQ, options);
    case Kind::kSecuredIpc:
      return std::make_unique<SecuredTransport>(ClusterConfig::IPC, options);
    case Kind::kTls:
      return std::make_unique<SecuredTransport>(ClusterConfig::GRPC, options);
    case Kind::kAuto:
      return *MakeTransport(ClusterConfig::AUTO, options);
    case Kind::kUcx:
      return *MakeTransport(ClusterConfig::UCX, options);
    case Kind::kUcxInAuto: {
      TransportOptions fast = options;
      fast.fast_network = true;
      return *MakeTransport(ClusterConfig::AUTO, fast);
    }
  }
  return nullptr;
}

std::string TransportTest::AnyAddress() {
  const std::string name = absl::StrCat("psgd-", ::getpid(), "-", next_name_++);
  switch (GetParam()) {
    case Kind::kZmqTcp:
    case Kind::kGrpc:
    case Kind::kCurveTcp:
    case Kind::kTls:
    case Kind::kUcx:
    case Kind::kUcxInAuto:
      return "tcp://127.0.0.1:0";
    case Kind::kIpc:
    case Kind::kSecuredIpc:
      return "ipc://" + name;
    case Kind::kAuto:
      return "tcp://127.0.0.1:0 ipc://" + name;
    case Kind::kInProcess:
      return name;
  }
  return "";
}

std::string TransportTest::FreeAddress() {
  return (*NewTransport()->Listen(AnyAddress()))->address();
}

namespace {

constexpr uint32_t kWorker = 7;  // the worker in MakePush

// Shared by all tests of the process, since making certificates is slow.
struct Identities {
  const Certificates certificates;
  const std::shared_ptr<const Credentials> server = Load("server");
  const std::shared_ptr<const Credentials> worker = Load("worker");
  const CurveKeys server_keys = MakeCurveKeys();
  const CurveKeys worker_keys = MakeCurveKeys();
  const std::string token = MakeToken();

  std::shared_ptr<const Credentials> Load(const char* name) const {
    auto credentials = LoadCredentials(CredentialFilesIn(certificates.dir(), name));
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return credentials.value_or(nullptr);
  }
};

const Identities& TheIdentities() {
  static const Identities identities;
  return identities;
}

std::unique_ptr<Transport> Make(ClusterConfig::Transport kind, TransportOptions options,
                                TransportSecurity security) {
  options.security = std::make_shared<const TransportSecurity>(std::move(security));
  return *MakeTransport(kind, options);
}

}  // namespace

TransportSecurity SecuredTransport::ListeningSecurity() {
  const Identities& identities = TheIdentities();
  auto allowed = std::make_shared<AllowList>();
  allowed->Admit(kWorker, 0,
                 {.curve_key = identities.worker_keys.public_key, .token = identities.token});
  TransportSecurity security;
  security.credentials = identities.server;
  security.curve = identities.server_keys;
  security.allowed = allowed;
  return security;
}

TransportSecurity SecuredTransport::ConnectingSecurity() {
  const Identities& identities = TheIdentities();
  TransportSecurity security;
  security.credentials = identities.worker;
  security.curve = identities.worker_keys;
  security.server_curve_key = identities.server_keys.public_key;
  security.token = identities.token;
  security.server_name = "localhost";
  return security;
}

SecuredTransport::SecuredTransport(ClusterConfig::Transport kind, const TransportOptions& options)
    : listening_(Make(kind, options, ListeningSecurity())),
      connecting_(Make(kind, options, ConnectingSecurity())) {}

Pair Connected(Transport& transport, const std::string& address) {
  Pair pair;
  pair.listener = *transport.Listen(address);
  pair.connector = *transport.Connect({pair.listener->address()});
  return pair;
}

namespace {

// All payloads are parts of this ring, so that large ones are copies: tests are not optimized.
const std::vector<std::byte>& Ring() {
  static const std::vector<std::byte> ring = [] {
    std::vector<std::byte> bytes(65521);  // a prime, so that no frame or page has its period
    uint32_t state = 1;
    for (std::byte& byte : bytes) {
      state = state * 1664525 + 1013904223;
      byte = static_cast<std::byte>(state >> 24);
    }
    return bytes;
  }();
  return ring;
}

// Different for every message and payload.
void FillPayload(uint64_t seq, size_t payload, std::vector<std::byte>* bytes) {
  const std::vector<std::byte>& ring = Ring();
  size_t from = (seq * 131 + payload * 31) % ring.size();
  for (size_t done = 0; done < bytes->size();) {
    const size_t count = std::min(bytes->size() - done, ring.size() - from);
    std::memcpy(bytes->data() + done, ring.data() + from, count);
    done += count;
    from = 0;
  }
}

}  // namespace

Message MakePush(uint64_t seq, const std::vector<size_t>& payload_sizes) {
  Message message;
  message.header.set_worker(7);
  message.header.mutable_push()->set_seq(seq);
  for (size_t p = 0; p < payload_sizes.size(); ++p) {
    std::vector<std::byte> bytes(payload_sizes[p]);
    FillPayload(seq, p, &bytes);
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
                         testing::Values(Kind::kZmqTcp, Kind::kIpc, Kind::kGrpc, Kind::kInProcess,
                                         Kind::kCurveTcp, Kind::kSecuredIpc, Kind::kTls,
                                         Kind::kAuto, Kind::kUcx, Kind::kUcxInAuto),
                         KindName);

}  // namespace psgd
