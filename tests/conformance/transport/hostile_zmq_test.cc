// Valid ZeroMQ connections that send bytes that are not a psgd message.
#include <zmq.hpp>

#include "net/transport.h"
#include "net/wire_format.h"
#include "tests/conformance/transport/transport_case.h"

namespace psgd {
namespace {

class HostileZmq : public testing::Test {
 protected:
  HostileZmq() : dealer_(context_, zmq::socket_type::dealer) {
    dealer_.set(zmq::sockopt::linger, 0);
    listener_ = *transport_->Listen("tcp://127.0.0.1:0");
    dealer_.connect(listener_->address());
  }

  void SendFrames(const std::vector<std::string>& frames) {
    for (size_t i = 0; i < frames.size(); ++i) {
      dealer_.send(zmq::buffer(frames[i]),
                   i + 1 < frames.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
    }
  }
  static std::vector<std::string> Frames(const Message& message) {
    std::vector<std::string> frames;
    const EncodedMessage encoded = *EncodeMessage(message, 64u << 20);
    for (const Bytes& frame : encoded.frames) {
      frames.emplace_back(reinterpret_cast<const char*>(frame.data()), frame.size());
    }
    return frames;
  }
  // Sends `frames` and expects a refusal that mentions `why`. The connection must still work after
  // it.
  void ExpectRefused(const std::vector<std::string>& frames, const std::string& why) {
    SCOPED_TRACE(why);
    const uint64_t before = listener_->stats().malformed;
    SendFrames(frames);
    EXPECT_FALSE(listener_->Receive(kSoon));
    EXPECT_EQ(listener_->stats().malformed, before + 1);
    EXPECT_NE(listener_->stats().last_malformed.find(why), std::string::npos)
        << listener_->stats().last_malformed;
    SendFrames(Frames(MakePush(9, {10, 30'000})));
    auto received = ReceiveSoon(*listener_);
    ASSERT_TRUE(received);
    EXPECT_TRUE(IsPush(received->message, 9, {10, 30'000}));
  }

  std::unique_ptr<Transport> transport_ = *MakeTransport(
      ClusterConfig::ZMQ, TransportOptions{.max_message_bytes = 1u << 20, .security = {}});
  std::unique_ptr<Endpoint> listener_;
  zmq::context_t context_;
  zmq::socket_t dealer_;
};

TEST_F(HostileZmq, FramesThatAreNoMessageAreCountedAndDropped) {
  ExpectRefused({""}, "first frame");
  ExpectRefused({"", "", ""}, "first frame");
  ExpectRefused({std::string(64, 'x')}, "magic");
  ExpectRefused(std::vector<std::string>(10'000, ""), "too many bytes or frames");
  ExpectRefused({std::string(700'000, 'x'), std::string(700'000, 'x')}, "too many bytes or frames");
  auto frames = Frames(MakePush(1, {20'000, 20'000}));
  frames.pop_back();
  ExpectRefused(frames, "came");
  frames = Frames(MakePush(1, {20'000, 20'000}));
  frames.push_back("more");
  ExpectRefused(frames, "came");
  frames = Frames(MakePush(1, {20'000, 20'000}));
  frames[2][77] ^= 1;
  ExpectRefused(frames, "checksum");
  frames = Frames(MakePush(1, {20'000, 20'000}));
  frames[0][kVersionAt] = 9;
  ExpectRefused(frames, "version 9");
}

TEST_F(HostileZmq, AFrameBeyondTheLimitEndsItsConnectionOnly) {
  auto good = *transport_->Connect({listener_->address()});
  SendFrames({std::string(2u << 20, 'x')});
  ASSERT_TRUE(good->Send(0, MakePush(1, {100})).ok());
  auto received = ReceiveSoon(*listener_);
  ASSERT_TRUE(received);
  EXPECT_TRUE(IsPush(received->message, 1, {100}));
}

}  // namespace
}  // namespace psgd
