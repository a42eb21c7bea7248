// How two processes meet over a Unix socket, and what they say to other releases and to strangers.
#include "net/ipc/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "net/ipc/shared_memory.h"
#include "net/wire_format.h"

namespace psgd {
namespace {

constexpr char kGreetsAsPsgd[] = "PSGD-IPC";

class IpcHandshakeTest : public testing::Test {
 protected:
  IpcHandshakeTest() { Meet(); }

  void Meet() {
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    here_ = FileDescriptor(fds[0]);
    there_ = FileDescriptor(fds[1]);
  }
  // What both sides say to these bytes.
  std::string AnswerTo(const std::string& bytes) {
    std::string said[2];
    for (const bool hello : {true, false}) {
      Meet();
      EXPECT_EQ(::send(there_.get(), bytes.data(), bytes.size(), 0),
                static_cast<ssize_t>(bytes.size()));
      const absl::Status status =
          hello ? ReceiveHello(here_.get()).status() : ReceiveWelcome(here_.get()).status();
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      said[hello] = std::string(status.message());
    }
    EXPECT_EQ(said[0], said[1]);
    return said[0];
  }
  // A greeting of `size` bytes, with `version` where all versions of the protocol have it.
  static std::string GreetingOf(uint32_t version, size_t size) {
    std::string bytes(std::max(size, sizeof(kGreetsAsPsgd) - 1 + sizeof(version)), '\0');
    std::memcpy(bytes.data(), kGreetsAsPsgd, sizeof(kGreetsAsPsgd) - 1);
    std::memcpy(bytes.data() + sizeof(kGreetsAsPsgd) - 1, &version, sizeof(version));
    bytes.resize(size);
    return bytes;
  }

  FileDescriptor here_, there_;
};

TEST_F(IpcHandshakeTest, EachSideHearsWhatTheOtherSays) {
  const Bell bell = *Bell::Create();
  const SharedMemory memory = *SharedMemory::Create(4096);
  EXPECT_TRUE(absl::IsNotFound(ReceiveHello(here_.get()).status())) << "nothing came yet";
  ASSERT_TRUE(SendHello(there_.get(), 4096, "pass", memory.fd(), 7, bell).ok());
  const auto hello = ReceiveHello(here_.get());
  ASSERT_TRUE(hello.ok()) << hello.status();
  EXPECT_EQ(hello->arena_bytes, 4096u);
  EXPECT_EQ(hello->pass, "pass");
  EXPECT_EQ(hello->number, 7u);
  ASSERT_TRUE(SendWelcome(here_.get(), 9, bell).ok());
  const auto welcome = ReceiveWelcome(there_.get());
  ASSERT_TRUE(welcome.ok()) << welcome.status();
  EXPECT_EQ(welcome->number, 9u);
  there_ = FileDescriptor();
  EXPECT_TRUE(absl::IsUnavailable(ReceiveHello(here_.get()).status()));
}

// Greetings of other versions have other sizes: that of version 1 has 128 bytes.
TEST_F(IpcHandshakeTest, AnotherReleaseIsNamedHoweverLongItsGreeting) {
  for (const uint32_t version : {1u, kProtocolVersion + 1u}) {
    for (const size_t size : {12, 128, 136, 500}) {
      EXPECT_EQ(AnswerTo(GreetingOf(version, size)),
                absl::StrCat("the peer speaks protocol version ", version, ", this side version ",
                             kProtocolVersion, ": run the same release on both"))
          << size << " bytes";
    }
  }
}

TEST_F(IpcHandshakeTest, StrangersAreNoOtherRelease) {
  std::string other = GreetingOf(1, 136);
  other[0] = 'p';
  for (const std::string& bytes :
       {other, GreetingOf(1, 11), GreetingOf(kProtocolVersion, 128), std::string("GET / HTTP/1.1")})
    EXPECT_THAT(AnswerTo(bytes), testing::HasSubstr("not a psgd process")) << bytes;
}

}  // namespace
}  // namespace psgd
