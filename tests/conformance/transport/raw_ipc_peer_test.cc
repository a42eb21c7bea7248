// Peers in shared memory that do not ring as they must: one stands still between the two halves of
// a ring, or marks other links than its own.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "net/address.h"
#include "net/ipc/handshake.h"
#include "net/ipc/shared_link.h"
#include "net/joinable_endpoint.h"
#include "tests/conformance/transport/transport_case.h"

namespace psgd {
namespace {

constexpr size_t kArena = 1u << 20;

bool IsReadable(int fd) {
  pollfd item{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&item, 1, 0) == 1;
}

class RawIpcPeer : public testing::Test {
 protected:
  // A peer that has been welcomed.
  struct Peer {
    FileDescriptor socket;
    SharedLink link;
    std::optional<IpcWelcome> welcome;

    // Sends bytes that are no message of psgd, without a mark. The listener counts them as
    // malformed.
    void Publish() { ASSERT_TRUE(link.Send(std::vector{Bytes::CopyOf(ByteSpan())})); }
    void Ring() { welcome->bell.Ring(welcome->number); }
  };

  Peer Connect() {
    Peer peer{*ConnectUnix(*ParseAddress(listener_->address())),
              SharedLink(*SharedMemory::Create(SharedLink::BytesFor(kArena)), kArena,
                         SharedLink::Side::kConnector),
              std::nullopt};
    EXPECT_TRUE(SendHello(peer.socket.get(), kArena, "", peer.link.fd(), 0, own_).ok());
    EXPECT_TRUE(Eventually([&] {
      (void)listener_->Receive(Milliseconds(1));
      absl::StatusOr<IpcWelcome> welcome = ReceiveWelcome(peer.socket.get());
      if (welcome.ok()) peer.welcome.emplace(*std::move(welcome));
      return peer.welcome.has_value();
    }));
    return peer;
  }
  uint64_t ReadWithin(Duration wait) {
    const uint64_t before = listener_->stats().malformed;
    (void)listener_->Receive(wait);
    return listener_->stats().malformed - before;
  }

  const std::unique_ptr<Transport> transport_ = *MakeTransport(ClusterConfig::IPC, {});
  const std::unique_ptr<Endpoint> listener_ =
      *transport_->Listen("ipc://raw-peer-" + std::to_string(getpid()));
  const Bell own_ = *Bell::Create();
};

TEST_F(RawIpcPeer, WhoseRingComesLateWakesTheReceiverOnceAlone) {
  const Peer peer = Connect();
  (void)listener_->Receive(Milliseconds(10));
  ASSERT_TRUE(peer.welcome->bell.IsArmed());

  const uint64_t one = 1;
  ASSERT_EQ(::write(peer.welcome->bell.fd(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  const int fd = static_cast<JoinableEndpoint&>(*listener_).fd();
  ASSERT_TRUE(IsReadable(fd));
  (void)listener_->Receive(Milliseconds(10));
  EXPECT_FALSE(IsReadable(fd));
}

// A link without a mark costs nothing. The listener looks at all now and then, maybe just now.
TEST_F(RawIpcPeer, IsNotLookedAtWithoutAMark) {
  Peer silent = Connect(), active = Connect();
  EXPECT_NE(silent.welcome->number, active.welcome->number);
  bool passed_over = false;
  for (int attempt = 0; attempt < 10 && !passed_over; ++attempt) {
    (void)listener_->Receive(Duration::zero());
    silent.Publish();
    active.Publish();
    active.Ring();
    ASSERT_EQ(ReadWithin(kSoon), 1u);
    passed_over = ReadWithin(Duration::zero()) == 0;
  }
  EXPECT_TRUE(passed_over);
}

// As after another peer cleared its mark.
TEST_F(RawIpcPeer, IsHeardWithoutAMark) {
  Peer peer = Connect();
  while (ReadWithin(Duration::zero()) > 0) {
  }
  peer.Publish();
  EXPECT_TRUE(Eventually([&] { return ReadWithin(Milliseconds(100)) == 1; }));
}

TEST_F(RawIpcPeer, ThatMarksWhatIsNotThereHarmsNobody) {
  Peer hostile = Connect(), other = Connect();
  for (size_t link = 0; link < Bell::kMostLinks; ++link) hostile.welcome->bell.Ring(link);
  other.Publish();
  other.Ring();
  EXPECT_EQ(ReadWithin(kSoon), 1u);
}

TEST_F(RawIpcPeer, WithALinkBeyondTheBellIsRefused) {
  FileDescriptor socket = *ConnectUnix(*ParseAddress(listener_->address()));
  const SharedLink link(*SharedMemory::Create(SharedLink::BytesFor(kArena)), kArena,
                        SharedLink::Side::kConnector);
  ASSERT_TRUE(SendHello(socket.get(), kArena, "", link.fd(), Bell::kMostLinks, own_).ok());
  EXPECT_TRUE(Eventually([&] { return ReadWithin(Milliseconds(1)) == 1; }));
}

}  // namespace
}  // namespace psgd
