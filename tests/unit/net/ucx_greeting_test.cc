// How UCX endpoints meet, over sockets on which anything may come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "net/ucx/greeting.h"
#include "net/wire_format.h"

namespace psgd {
namespace {

using testing::HasSubstr;

class UcxGreetingTest : public testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    here_ = FileDescriptor(fds[0]);
    there_ = FileDescriptor(fds[1]);
  }

  // The bytes of a greeting.
  std::string Sent(const UcxGreeting& greeting) {
    EXPECT_TRUE(SendGreeting(there_.get(), greeting).ok());
    std::string bytes(greeting.worker.size() + 1000, '\0');
    const ssize_t got = ::recv(here_.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return bytes;
  }

  absl::StatusOr<std::optional<UcxGreeting>> ReadOf(const std::string& bytes) {
    EXPECT_EQ(::send(there_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    return GreetingReader().Read(here_.get());
  }

  FileDescriptor here_, there_;
  const UcxGreeting greeting_{.number = 7, .worker = std::string(500, 'w')};
};

TEST_F(UcxGreetingTest, ComesInAnyParts) {
  const std::string bytes = Sent(greeting_);
  GreetingReader reader;
  for (size_t i = 0; i < bytes.size(); ++i) {
    ASSERT_EQ(::send(there_.get(), &bytes[i], 1, 0), 1);
    const auto read = reader.Read(here_.get());
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(read->has_value(), i + 1 == bytes.size()) << i;
    if (!read->has_value()) continue;
    EXPECT_EQ((*read)->number, 7u);
    EXPECT_EQ((*read)->worker, greeting_.worker);
  }
}

TEST_F(UcxGreetingTest, StrangersAreRefused) {
  EXPECT_EQ(ReadOf("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").status().code(),
            absl::StatusCode::kInvalidArgument);
}

// UCX trusts the address of a worker, so damage must be found before.
TEST_F(UcxGreetingTest, DamageIsFoundAtEveryByte) {
  const std::string bytes = Sent(greeting_);
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i >= 12 && i < 24) continue;  // the length and the number have no check of their own
    SetUp();
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_EQ(ReadOf(damaged).status().code(), absl::StatusCode::kInvalidArgument) << i;
  }
}

TEST_F(UcxGreetingTest, AnotherReleaseIsNamed) {
  std::string bytes = Sent(greeting_);
  bytes[8] = static_cast<char>(bytes[8] + 1);
  EXPECT_THAT(std::string(ReadOf(bytes).status().message()), HasSubstr("same release"));
}

// What follows the version may mean something else there.
TEST_F(UcxGreetingTest, AnotherReleaseIsNamedWhateverFollowsItsVersion) {
  std::string bytes = Sent(greeting_);
  bytes[8] = static_cast<char>(bytes[8] + 1);
  for (const char length : {'\0', '\x7f'}) {
    SetUp();
    std::fill(bytes.begin() + 12, bytes.end(), length);
    EXPECT_THAT(std::string(ReadOf(bytes).status().message()), HasSubstr("same release"));
  }
}

TEST_F(UcxGreetingTest, AGreetingIsBounded) {
  std::string bytes = Sent(greeting_);
  bytes[15] = '\x7f';  // two gigabytes of address
  EXPECT_EQ(ReadOf(bytes).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(UcxGreetingTest, AnEndIsUnavailable) {
  there_ = FileDescriptor();
  EXPECT_EQ(GreetingReader().Read(here_.get()).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace psgd
