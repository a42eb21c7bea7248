// The transports that the conformance suite runs over, and its tools.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/transport.h"
#include "net/transport_security.h"

namespace psgd {

enum class Kind {
  kZmqTcp,
  kIpc,
  kGrpc,
  kInProcess,
  kCurveTcp,
  kSecuredIpc,
  kTls,
  kAuto,
  kUcx,
  kUcxInAuto
};
std::string KindName(const testing::TestParamInfo<Kind>& info);

constexpr Duration kSoon = std::chrono::seconds(20);  // longer than any step of a test takes

class TransportTest : public testing::TestWithParam<Kind> {
 protected:
  // Makes a transport of the kind under test. In-process endpoints find each other only through the
  // same transport. Other kinds may mix options.
  std::unique_ptr<Transport> NewTransport(const TransportOptions& options = {}) const;
  // For a listener without a fixed address: any free port, a new path, a new name.
  std::string AnyAddress();
  // An address without a listener, for tests that connect first and listen later.
  std::string FreeAddress();
  bool sockets() const { return GetParam() != Kind::kInProcess; }

 private:
  // Removes the socket files that killed listeners leave behind.

  int next_name_ = 0;
};

// Both sides of a secured kind: one certificate each, and the pass of worker 7.
class SecuredTransport : public Transport {
 public:
  SecuredTransport(ClusterConfig::Transport kind, const TransportOptions& options);

  absl::StatusOr<std::unique_ptr<Endpoint>> Listen(const std::string& address) override {
    return listening_->Listen(address);
  }
  absl::StatusOr<std::unique_ptr<Endpoint>> Connect(
      const std::vector<std::string>& addresses) override {
    return connecting_->Connect(addresses);
  }

  // The security of each side, which a test may change.
  static TransportSecurity ListeningSecurity();
  static TransportSecurity ConnectingSecurity();

 private:
  std::unique_ptr<Transport> listening_, connecting_;
};

// A connected pair of endpoints.
struct Pair {
  std::unique_ptr<Endpoint> listener;
  std::unique_ptr<Endpoint> connector;
};
Pair Connected(Transport& transport, const std::string& address);

// Makes a push with this sequence number and payloads of these sizes. The bytes follow from the
// number.
Message MakePush(uint64_t seq, const std::vector<size_t>& payload_sizes);
// Whether the message equals MakePush of `seq` and these sizes.
testing::AssertionResult IsPush(const Message& message, uint64_t seq,
                                const std::vector<size_t>& payload_sizes);

// Receives until a message comes, for at most kSoon.
std::optional<Received> ReceiveSoon(Endpoint& endpoint);
// Polls until the condition holds, for at most kSoon.
bool Eventually(const std::function<bool()>& condition);

}  // namespace psgd
