// The memory that two processes share: full and fragmented arenas, and peers that break the rules.
#include "net/ipc/shared_link.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <system_error>
#include <thread>

#include "net/ipc/bell.h"
#include "net/ipc/handshake.h"

namespace psgd {
namespace {

constexpr size_t kArena = 4u << 20;

Bytes Filled(size_t size, int value) {
  return Bytes::Adopt(std::vector<std::byte>(size, static_cast<std::byte>(value)));
}

bool IsFilled(const Bytes& bytes, size_t size, int value) {
  return bytes.size() == size &&
         std::ranges::all_of(bytes.span(), [&](std::byte b) { return b == std::byte(value); });
}

class SharedLinkTest : public testing::Test {
 protected:
  SharedLinkTest() {
    auto memory = SharedMemory::Create(SharedLink::BytesFor(kArena));
    EXPECT_TRUE(memory.ok()) << memory.status();
    auto again = Map(memory->fd());
    raw_.emplace(Map(memory->fd()));
    connector_.emplace(*std::move(memory), kArena, SharedLink::Side::kConnector);
    listener_.emplace(std::move(again), kArena, SharedLink::Side::kListener);
  }
  static SharedMemory Map(int fd) {
    auto memory = SharedMemory::Map(FileDescriptor(::dup(fd)), SharedLink::BytesFor(kArena));
    EXPECT_TRUE(memory.ok()) << memory.status();
    return *std::move(memory);
  }
  bool Send(const std::vector<Bytes>& frames) { return connector_->Send(frames); }
  // The frames of the next message; empty: there is none.
  std::vector<Bytes> Receive(size_t most = kArena) {
    auto frames = listener_->Receive(most);
    EXPECT_TRUE(frames.ok()) << frames.status();
    return frames.ok() && *frames ? **frames : std::vector<Bytes>();
  }
  // Writes where the connector writes: number 0 is what it published, then come its slots.
  void Overwrite(size_t offset, uint64_t value) {
    std::memcpy(raw_->data() + offset, &value, sizeof(value));
  }
  static constexpr size_t kPublishedAt = 0, kReturnedAt = 64, kSlotsAt = 128;

  std::optional<SharedLink> connector_, listener_;
  std::optional<SharedMemory> raw_;
};

TEST_F(SharedLinkTest, FramesKeepTheirBounds) {
  ASSERT_TRUE(Send({Filled(10, 1), Bytes(), Filled(100'000, 2)}));
  EXPECT_TRUE(listener_->HasIncoming());
  const auto frames = Receive();
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_TRUE(IsFilled(frames[0], 10, 1));
  EXPECT_TRUE(frames[1].empty());
  EXPECT_TRUE(IsFilled(frames[2], 100'000, 2));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(frames[2].data()) % 64, 0u);
  EXPECT_FALSE(listener_->HasIncoming());
}

// A shard keeps pushes until their clock is complete: that must not stop the sender.
TEST_F(SharedLinkTest, AReceiverThatKeepsAllStopsNobody) {
  std::vector<Bytes> kept;
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(Send({Filled(400'000, i)})) << i;
    kept.push_back(Receive()[0]);
  }
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(IsFilled(kept[i], 400'000, i)) << i;
}

TEST_F(SharedLinkTest, AReceiverThatKeepsManySmallOnesStopsNobody) {
  std::vector<Bytes> kept;
  for (int i = 0; i < 3000; ++i) {
    ASSERT_TRUE(Send({Filled(5000, i % 100)})) << i;
    kept.push_back(Receive()[0]);
  }
  for (int i = 0; i < 3000; ++i) EXPECT_TRUE(IsFilled(kept[i], 5000, i % 100)) << i;
}

TEST_F(SharedLinkTest, AFullArenaTakesMessagesAgainOnceTheyAreRead) {
  size_t sent = 0;
  while (Send({Filled(300'000, 7)})) ++sent;
  EXPECT_GT(sent, 10u);
  EXPECT_TRUE(IsFilled(Receive()[0], 300'000, 7));
  EXPECT_TRUE(Send({Filled(300'000, 8)}));
  for (size_t i = 1; i < sent; ++i) EXPECT_TRUE(IsFilled(Receive()[0], 300'000, 7));
  EXPECT_TRUE(IsFilled(Receive()[0], 300'000, 8));
}

TEST_F(SharedLinkTest, AMessageThatFitsNowhereAsAWholeComesInPieces) {
  // What is kept lies between the places that become free.
  std::deque<Bytes> kept;
  while (Send({Filled(200'000, 1)})) {
  }
  for (int i = 0; listener_->HasIncoming(); ++i) {
    Bytes bytes = Receive()[0];
    if (i % 4 == 0) kept.push_back(std::move(bytes));
  }
  ASSERT_TRUE(Send({Filled(1'500'000, 2), Filled(70'000, 3)}));
  const auto frames = Receive();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_TRUE(IsFilled(frames[0], 1'500'000, 2));
  EXPECT_TRUE(IsFilled(frames[1], 70'000, 3));
  for (const Bytes& bytes : kept) EXPECT_TRUE(IsFilled(bytes, 200'000, 1));
}

TEST_F(SharedLinkTest, BytesOutliveTheLinkAndAreFreedByAnyThread) {
  ASSERT_TRUE(Send({Filled(100'000, 5)}));
  std::vector<Bytes> frames = Receive();
  listener_.reset();
  connector_.reset();
  std::thread([frames = std::move(frames)]() mutable {
    EXPECT_TRUE(IsFilled(frames[0], 100'000, 5));
    frames.clear();
  }).join();
}

TEST_F(SharedLinkTest, AMessageBeyondTheLimitIsDroppedAlone) {
  ASSERT_TRUE(Send({Filled(3'000'000, 1)}));
  ASSERT_TRUE(Send({Filled(1000, 2)}));
  EXPECT_TRUE(absl::IsInvalidArgument(listener_->Receive(1'000'000).status()));
  EXPECT_TRUE(listener_->sound());
  EXPECT_TRUE(IsFilled(Receive(1'000'000)[0], 1000, 2));
}

TEST_F(SharedLinkTest, AFragmentOutsideTheArenaEndsTheLink) {
  ASSERT_TRUE(Send({Filled(10, 1)}));
  Overwrite(kSlotsAt, kArena - 8);
  EXPECT_TRUE(absl::IsInvalidArgument(listener_->Receive(kArena).status()));
  EXPECT_FALSE(listener_->sound());
  EXPECT_FALSE(listener_->HasIncoming());
}

TEST_F(SharedLinkTest, MoreFragmentsThanThereAreSlotsEndTheLink) {
  Overwrite(kPublishedAt, 5000);
  EXPECT_TRUE(absl::IsInvalidArgument(listener_->Receive(kArena).status()));
  EXPECT_FALSE(listener_->sound());
}

TEST_F(SharedLinkTest, FramesThatDoNotFitTheirMessageAreRefused) {
  ASSERT_TRUE(Send({Filled(10, 1)}));
  const size_t arena = SharedLink::BytesFor(kArena) - 2 * kArena;
  Overwrite(arena, uint64_t{1} << 61);  // so many frames
  EXPECT_TRUE(absl::IsInvalidArgument(listener_->Receive(kArena).status()));
  ASSERT_TRUE(Send({Filled(10, 1)}));
  EXPECT_TRUE(listener_->sound());
}

TEST_F(SharedLinkTest, WhatWasNeverSentCannotBeGivenBack) {
  ASSERT_TRUE(Send({Filled(10, 1)}));
  Overwrite(kReturnedAt, 9);
  EXPECT_FALSE(Send({Filled(10, 1)}));
  EXPECT_FALSE(connector_->sound());
}

TEST_F(SharedLinkTest, MemoryThatCouldShrinkIsRefused) {
  FileDescriptor fd(::memfd_create("loose", 0));
  ASSERT_EQ(::ftruncate(fd.get(), 4096), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(SharedMemory::Map(std::move(fd), 4096).status()));
  const auto sealed = SharedMemory::Create(4096);
  EXPECT_TRUE(absl::IsInvalidArgument(
      SharedMemory::Map(FileDescriptor(::dup(sealed->fd())), 8192).status()));
}

TEST_F(SharedLinkTest, MemoryOfAPeerTakesNoDescriptor) {
  const auto made = SharedMemory::Create(4096);
  FileDescriptor fd(::dup(made->fd()));
  const int number = fd.get();
  const auto mapped = SharedMemory::Map(std::move(fd), 4096);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
}

TEST(IpcHandshake, APeerWhoseFilesCannotBeOpenedIsNoStranger) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const FileDescriptor from(pair[0]), to(pair[1]);
  const auto memory = SharedMemory::Create(4096);
  const auto bell = Bell::Create();
  ASSERT_TRUE(memory.ok() && bell.ok());
  // UndefinedBehaviorSanitizer opens a file when it sees an object of a class for the first time.
  for (const auto* category : {&std::generic_category(), &std::system_category()})
    EXPECT_FALSE(std::error_code(EIO, *category) == std::errc::too_many_files_open);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = static_cast<rlim_t>(FileDescriptor(::dup(0)).get()) + 1;  // room for one more
  ASSERT_TRUE(SendHello(from.get(), 4096, "", memory->fd(), 0, *bell).ok());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  const absl::Status status = ReceiveHello(to.get()).status();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_NE(status.message().find("ulimit"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace psgd
