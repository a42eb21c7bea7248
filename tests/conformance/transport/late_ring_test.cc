// A peer in shared memory that stands still between the two halves of a ring.
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

TEST(LateRing, WakesItsReceiverOnceAlone) {
  const auto transport = *MakeTransport(ClusterConfig::IPC, {});
  const auto listener = *transport->Listen("ipc://late-ring-" + std::to_string(getpid()));
  const FileDescriptor socket = *ConnectUnix(*ParseAddress(listener->address()));
  const SharedLink link(*SharedMemory::Create(SharedLink::BytesFor(kArena)), kArena,
                        SharedLink::Side::kConnector);
  const Bell own = *Bell::Create();
  ASSERT_TRUE(SendHello(socket.get(), kArena, "", link.fd(), own).ok());
  std::optional<Bell> bell;
  ASSERT_TRUE(Eventually([&] {
    (void)listener->Receive(Milliseconds(1));
    absl::StatusOr<Bell> welcome = ReceiveWelcome(socket.get());
    if (welcome.ok()) bell.emplace(*std::move(welcome));
    return bell.has_value();
  }));
  (void)listener->Receive(Milliseconds(10));
  ASSERT_TRUE(bell->IsArmed());

  const uint64_t one = 1;
  ASSERT_EQ(::write(bell->fd(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  const int fd = static_cast<JoinableEndpoint&>(*listener).fd();
  ASSERT_TRUE(IsReadable(fd));
  (void)listener->Receive(Milliseconds(10));
  EXPECT_FALSE(IsReadable(fd));
}

}  // namespace
}  // namespace psgd
