// A stream's queue: what it takes, and what a message that it does not take costs. How a stream
// ends.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/grpc/grpc_endpoint_base.h"

namespace psgd {
namespace {

// Writes nothing until the test says that a write is done.
class HeldStream : public GrpcStream {
 public:
  using GrpcStream::GrpcStream;
  using GrpcStream::WriteDone;

 protected:
  void StartReading(grpc::ByteBuffer*) override {}
  void StartWriting(const grpc::ByteBuffer*) override {}
  bool IsAccepted() const override { return true; }
  void Release() override {}
};

class OneStream : public GrpcEndpointBase {
 public:
  explicit OneStream(const TransportOptions& options) : GrpcEndpointBase(options) {}

  absl::Status Send(PeerId to, const Message& message) override {
    return SendOn(*stream_, to, message);
  }
  void Write() { stream_->WriteDone(true); }

 private:
  const std::shared_ptr<HeldStream> stream_ =
      std::make_shared<HeldStream>(shared_, 0, std::make_shared<GrpcOutbox>());
};

Message OfBytes(size_t bytes) {
  Message message;
  message.payloads.push_back(Bytes::Adopt(std::vector<std::byte>(bytes)));
  return message;
}

TEST(GrpcQueue, HasRoomForBytesAndMessages) {
  TransportOptions options;
  options.send_queue_bytes = 3000;
  options.send_queue_messages = 3;
  OneStream endpoint(options);
  EXPECT_TRUE(endpoint.Send(0, OfBytes(9000)).ok());  // it is being written, and waits no more
  EXPECT_TRUE(endpoint.Send(0, OfBytes(2000)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(endpoint.Send(0, OfBytes(1000))));
  EXPECT_TRUE(endpoint.Send(0, OfBytes(800)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(endpoint.Send(0, OfBytes(200))));
  endpoint.Write();
  EXPECT_TRUE(endpoint.Send(0, OfBytes(2000)).ok());
  endpoint.Write();
  endpoint.Write();
  EXPECT_TRUE(endpoint.Send(0, OfBytes(9000)).ok());  // alone
  EXPECT_TRUE(absl::IsResourceExhausted(endpoint.Send(0, OfBytes(1))));
  endpoint.Write();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(endpoint.Send(0, OfBytes(1)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(endpoint.Send(0, OfBytes(1))));
}

// A shard tries again each millisecond while a peer is slow. A checksum each time would take all of
// its thread.
TEST(GrpcQueue, AMessageThatFindsNoRoomIsNotRead) {
  constexpr size_t kBytes = 4096;
  TransportOptions options;
  options.send_queue_bytes = kBytes;
  OneStream endpoint(options);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(endpoint.Send(0, OfBytes(kBytes)).ok());
  void* const memory =
      ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Message unreadable;
  unreadable.payloads = {Bytes::Unowned({static_cast<const std::byte*>(memory), kBytes})};
  EXPECT_TRUE(absl::IsResourceExhausted(endpoint.Send(0, unreadable)));
  ::munmap(memory, kBytes);
}

// Records what it starts.
class EndingStream : public GrpcStream {
 public:
  EndingStream(std::shared_ptr<GrpcShared> shared, bool accepted)
      : GrpcStream(std::move(shared), 0, std::make_shared<GrpcOutbox>()), accepted_(accepted) {}
  using GrpcStream::ReadDone;
  using GrpcStream::WriteDone;

  void Arrives(grpc::ByteBuffer message) {
    read_->Swap(&message);
    ReadDone(true);
  }

  std::vector<size_t> written;  // bytes of each message
  bool written_all = false, released = false;

 protected:
  void StartReading(grpc::ByteBuffer* into) override { read_ = into; }
  void StartWriting(const grpc::ByteBuffer* message) override {
    written.push_back(message->Length());
  }
  void StartWritesDone() override { written_all = true; }
  bool IsAccepted() const override { return accepted_; }
  void Release() override { released = true; }

 private:
  const bool accepted_;
  grpc::ByteBuffer* read_ = nullptr;
};

grpc::ByteBuffer OfText(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}

// The connection is closed after that. What the other side has not read by then may be lost.
TEST(GrpcStream, AnAcceptedOneEndsOnceTheOtherSideHasReadTheFarewell) {
  const auto shared = std::make_shared<GrpcShared>(TransportOptions());
  const auto stream = std::make_shared<EndingStream>(shared, /*accepted=*/true);
  stream->Continue();
  stream->Send(OfText("last"));
  shared->closing = true;
  stream->Continue();
  EXPECT_EQ(stream->written, std::vector<size_t>{4});
  stream->WriteDone(true);
  EXPECT_EQ(stream->written, (std::vector<size_t>{4, 0}));
  stream->WriteDone(true);
  EXPECT_FALSE(stream->released);
  stream->ReadDone(false);
  EXPECT_TRUE(stream->released);
}

TEST(GrpcStream, AConnectingOneAnswersTheFarewellAndKeepsWhatIsQueued) {
  const auto shared = std::make_shared<GrpcShared>(TransportOptions());
  const auto stream = std::make_shared<EndingStream>(shared, /*accepted=*/false);
  stream->Continue();
  stream->Arrives(OfText("last"));
  stream->Send(OfText("under way"));
  stream->Arrives(OfText(""));
  stream->Send(OfText("for another stream"));
  EXPECT_FALSE(stream->written_all);
  stream->WriteDone(true);
  EXPECT_TRUE(stream->written_all);
  EXPECT_EQ(stream->written.size(), 1u);
  EXPECT_EQ(shared->inbox.size(), 1u) << "the farewell is no message";
  stream->WriteDone(true);
  stream->ReadDone(false);
  EXPECT_TRUE(stream->released);
  EXPECT_FALSE(stream->HasRoom(TransportOptions().send_queue_bytes)) << "the message is kept";
}

}  // namespace
}  // namespace psgd
