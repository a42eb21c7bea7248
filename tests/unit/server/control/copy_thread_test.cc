// Copies of a shard on several servers of this process: their threads, joined by real streams.
#include "server/control/copy_thread.h"

#include <gmock/gmock.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "net/wire_format.h"
#include "net/zmq/send_budget.h"
#include "server/control/copy_wire.h"
#include "server/control/leader_link.h"
#include "server/control/peer_service.h"
#include "server/control/task_queue.h"
#include "tests/fakes/in_process/in_process_transport.h"
#include "tests/unit/server/cluster/fake_disk.h"
#include "tests/unit/server/shard/shard_fixture.h"

namespace psgd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Duration kPatience = std::chrono::seconds(20);
constexpr Duration kSilence = std::chrono::milliseconds(300);
constexpr Duration kLook = std::chrono::milliseconds(2);
constexpr char kRun[] = "run";
constexpr uint32_t kElements = 1000;

template <typename Condition>
bool Eventually(const Condition& holds) {
  const Time until = SteadyNow() + kPatience;
  while (!holds()) {
    if (SteadyNow() > until) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

Config ConfigOfRun() {
  Config config;
  config.mutable_consistency()->set_reduction(ConsistencyConfig::SUM);
  config.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
  return config;
}

// Tells of the images that it is given, and keeps nothing.
class NotingJournal final : public Journal {
 public:
  explicit NotingJournal(std::function<void(uint64_t entry)> on_image)
      : on_image_(std::move(on_image)) {}
  absl::Status Append(uint64_t, std::span<const JournalEntry>) override { return absl::OkStatus(); }
  absl::Status BeginLog(uint64_t) override { return absl::OkStatus(); }
  absl::Status SaveImage(const ShardImage& image) override {
    on_image_(image.record.entry());
    return absl::OkStatus();
  }
  absl::StatusOr<ShardImage> LoadImage(std::vector<std::string>*) override {
    return absl::NotFoundError("nothing is kept");
  }
  absl::Status Replay(uint64_t, const std::function<absl::Status(const JournalEntry&)>&) override {
    return absl::OkStatus();
  }

 private:
  const std::function<void(uint64_t)> on_image_;
};

// A server with one copy of one shard.
class Node final : public PeerHandler {
 public:
  // `saved`: gets the last entries of the images in the journal; null: there is no journal.
  Node(uint32_t number, Transport* transport, bool fresh, std::vector<uint64_t>* saved = nullptr,
       Duration write_patience = std::chrono::seconds(30))
      : number_(number),
        guard_(nullptr, NullLog()),
        copy_(Options(transport, write_patience), Fresh(fresh, saved)) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
    FollowLink::Options link;
    link.call = [](const std::string& address) {
      return CallLeadingCopy(address, nullptr, std::chrono::seconds(1));
    };
    link.hello = HelloToLeadingCopy(kRun, number, 0);
    const auto reader = std::make_shared<std::optional<LeadingReader>>();
    link.on_connected = [this, reader] {
      reader->emplace(0);
      copy_.OnReached();
    };
    link.on_message = [this, reader](const LeadingSays& says) -> absl::Status {
      PSGD_ASSIGN_OR_RETURN(std::optional<CopyMessage> message, (*reader)->Add(says));
      message ? copy_.OnCopy(leader_, *std::move(message)) : copy_.OnPart();
      return absl::OkStatus();
    };
    link_ = std::make_unique<FollowLink>(std::move(link));
    service_.SetHandler(this);
  }
  ~Node() override { Die(); }

  // Ends the server like the end of its process.
  void Die() {
    service_.SetHandler(nullptr);
    copy_.Stop();  // the copy sends over the link
    link_.reset();
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }

  void Lead(uint64_t epoch, const std::vector<uint32_t>& in_sync, uint64_t heard) {
    link_->SetLeader("");
    AssignedCopy assigned;
    assigned.set_epoch(epoch);
    assigned.set_leader(number_);
    assigned.mutable_in_sync()->Add(in_sync.begin(), in_sync.end());
    assigned.set_heard(heard);
    copy_.Have(assigned, number_);
  }
  void Follow(uint64_t epoch, const Node& leader) {
    leader_ = leader.number_;
    AssignedCopy assigned;
    assigned.set_epoch(epoch);
    assigned.set_leader(leader.number_);
    copy_.Have(assigned, number_);
    link_->SetLeader(leader.address_);
  }
  absl::Status Execute(ShardCommand command, uint64_t number, uint64_t epoch) {
    {
      std::lock_guard lock(mutex_);
      orders_.erase(number);
    }
    copy_.Execute(std::move(command), number, epoch);
    const auto done = [&] {
      std::lock_guard lock(mutex_);
      return orders_.contains(number);
    };
    if (!Eventually(done)) return absl::DeadlineExceededError(absl::StrCat("order ", number));
    std::lock_guard lock(mutex_);
    return orders_[number];
  }
  CopyState state() const {
    std::lock_guard lock(mutex_);
    return state_;
  }
  bool IsCaughtUp(uint32_t server) const {
    const CopyState now = state();
    return std::ranges::any_of(now.caught_up(),
                               [&](const auto& copy) { return copy.server() == server; });
  }
  bool IsSilent(uint32_t server) const {
    const CopyState now = state();
    return std::ranges::count(now.silent(), server) > 0;
  }
  CopyThread& copy() { return copy_; }
  // The images of other copies are not written before HoldImages(false).
  void HoldImages(bool hold) { holds_images_ = hold; }
  // How often it said that an image takes its time.
  int signs() const { return signs_; }
  // The images that were due so far.
  std::vector<std::shared_ptr<const ShardImage>> due() const {
    std::lock_guard lock(mutex_);
    return due_;
  }

  CallGuard& guard() override { return guard_; }
  absl::Status Serve(const ServerSays::Hello&, ServingStream*) override {
    return absl::UnimplementedError("no run is led here");
  }
  absl::Status ShardWeights(const ShardWeightsRequest&,
                            const std::function<absl::Status(const ShardWeightsChunk&)>&) override {
    return absl::UnimplementedError("weights are read from the copy here");
  }
  absl::Status Follow(const FollowingSays::Hello& hello, FollowingStream* stream) override {
    TaskQueue queue;
    {
      std::lock_guard lock(mutex_);
      followers_[hello.server()] = {stream, &queue};
    }
    FollowingSays says;
    while (stream->Receive(&says)) {
      auto message = DecodeFollowing(hello.shard(), says);
      if (!message.ok()) return message.status();
      copy_.OnCopy(hello.server(), *std::move(message));
    }
    std::lock_guard lock(mutex_);
    followers_.erase(hello.server());
    return absl::OkStatus();
  }

 private:
  struct Connection {
    FollowingStream* stream = nullptr;
    TaskQueue* queue = nullptr;
  };

  static std::unique_ptr<DurableShard> Fresh(bool fresh, std::vector<uint64_t>* saved) {
    if (!fresh) return nullptr;
    DurableShardOptions options = DurableShardOptionsOf(ConfigOfRun(), 0, 1);
    if (saved != nullptr) {
      options.journal =
          std::make_unique<NotingJournal>([saved](uint64_t entry) { saved->push_back(entry); });
    }
    options.image_after = 1;
    return std::make_unique<DurableShard>(std::move(options));
  }
  CopyThreadOptions Options(Transport* transport, Duration write_patience) {
    CopyThreadOptions options;
    options.write_patience = write_patience;
    options.core.silence = kSilence;
    options.core.place = std::make_shared<CopyPlace>(std::make_unique<FakeDisk>(&disk_, [this] {
      DurableShardOptions place = DurableShardOptionsOf(ConfigOfRun(), 0, 1);
      place.journal = std::make_unique<NotingJournal>(
          [this](uint64_t) { EXPECT_TRUE(Eventually([this] { return !holds_images_; })); });
      return place;
    }));
    options.listen = [this, transport] { return transport->Listen(absl::StrCat("node", number_)); };
    options.advertised = [](const std::string& address) { return address; };
    options.callbacks.on_state = [this](CopyState state) {
      std::lock_guard lock(mutex_);
      state_ = std::move(state);
    };
    options.callbacks.on_order = [this](uint32_t, const CopyCore::OrderDone& done) {
      std::lock_guard lock(mutex_);
      orders_[done.number] = done.status;
    };
    options.callbacks.on_send = [this](CopySend send) { SendCopy(std::move(send)); };
    options.callbacks.on_cut = [](uint32_t, const ShardCut&) {};
    options.callbacks.on_quarantine = [](const QuarantinedWorker&) {};
    options.callbacks.on_image = [this](uint32_t, std::shared_ptr<const ShardImage> image) {
      std::lock_guard lock(mutex_);
      due_.push_back(std::move(image));
    };
    return options;
  }
  void SendCopy(CopySend send) {
    if (std::holds_alternative<CopyMessage::TakesImage>(send.message.what)) ++signs_;
    const bool leading = std::holds_alternative<CopyMessage::Image>(send.message.what) ||
                         std::holds_alternative<CopyMessage::Steps>(send.message.what);
    if (!leading) return link_->Send(EncodeFollowing(send.message));
    std::lock_guard lock(mutex_);
    const auto follower = followers_.find(send.server);
    if (follower == followers_.end()) return;
    follower->second.queue->Post(
        [stream = follower->second.stream, message = std::move(send.message)] {
          return SendLeading(message, [&](const LeadingSays& says) { return stream->Send(says); });
        });
  }

  const uint32_t number_;
  std::string address_;
  std::atomic<uint32_t> leader_{0};
  std::atomic<bool> holds_images_{false};
  std::atomic<int> signs_{0};
  CallGuard guard_;
  PeerService service_;
  std::unique_ptr<grpc::Server> server_;
  mutable std::mutex mutex_;  // guards what follows, to due_
  CopyState state_;
  std::map<uint32_t, Connection> followers_;
  std::map<uint64_t, absl::Status> orders_;
  std::vector<std::shared_ptr<const ShardImage>> due_;
  FakeDiskState disk_;  // owned by the copy's thread
  std::unique_ptr<FollowLink> link_;
  CopyThread copy_;
};

class CopyThreads : public ::testing::Test {
 protected:
  explicit CopyThreads(const TransportOptions& options = {})
      : transport_(MakeInProcessTransport(options)), first_(1, transport_.get(), true) {}

  // The first server leads the shard, and worker 0 may push to it.
  void Start() {
    ShardFixture model({.elements = {kElements, 3}}, ConfigOfRun());
    first_.Lead(1, {1}, 0);
    ASSERT_TRUE(first_.Execute(model.install(), 1, 1).ok());
    ASSERT_TRUE(first_.Execute(AdmitWorker{ShardFixture::Key(0)}, 2, 1).ok());
    BeginSegment begin;
    begin.segment.set_id(1);
    begin.segment.set_clocks(1000);
    begin.segment.add_workers(0);
    ASSERT_TRUE(first_.Execute(begin, 3, 1).ok());
    Connect(first_);
  }
  void Connect(Node& to) {
    ASSERT_TRUE(Eventually([&] { return !to.state().endpoint().empty(); }));
    worker_ = *transport_->Connect({to.state().endpoint()});
  }
  // Pushes and returns the next sequence number; 0: no answer within `patience`.
  uint64_t Push(uint64_t seq, float value, Duration patience = kPatience) {
    Message message = ShardFixture::PushOf(0, seq, seq, {{0, Values(kElements, value)}});
    EXPECT_TRUE(worker_->Send(0, message).ok());
    return Acknowledged(patience);
  }
  uint64_t Acknowledged(Duration patience) {
    const Time until = SteadyNow() + patience;
    while (SteadyNow() < until) {
      const auto received = worker_->Receive(kLook);
      if (received && received->message.header.has_push_ack()) {
        return received->message.header.push_ack().next_seq();
      }
    }
    return 0;
  }
  static float FirstWeight(Node& node) {
    float weight = 0;
    const absl::Status read = node.copy().Weights([&](uint32_t slice, const Bytes& values) {
      if (slice == 0) weight = Floats(values)[0];
      return absl::OkStatus();
    });
    EXPECT_TRUE(read.ok()) << read;
    return weight;
  }

  std::unique_ptr<Transport> transport_;
  Node first_;
  std::unique_ptr<Endpoint> worker_;
};

TEST_F(CopyThreads, ACopyCatchesUpAndTakesOver) {
  Start();
  EXPECT_EQ(Push(1, 1), 2u);
  Node second(2, transport_.get(), false);
  second.Follow(1, first_);
  ASSERT_TRUE(Eventually([&] { return first_.IsCaughtUp(2); })) << first_.state().DebugString();
  first_.Lead(1, {1, 2}, first_.state().report());
  EXPECT_EQ(Push(2, 10), 3u);
  EXPECT_TRUE(Eventually([&] { return second.state().entries() == first_.state().entries(); }));
  EXPECT_TRUE(absl::IsUnavailable(
      second.copy().Weights([](uint32_t, const Bytes&) { return absl::OkStatus(); })));

  first_.Die();
  second.Lead(2, {2}, 0);
  Connect(second);
  EXPECT_EQ(Push(2, 10), 3u) << "it is not applied twice";
  EXPECT_EQ(Push(3, 100), 4u);
  EXPECT_EQ(FirstWeight(second), -111);
}

// A slow disk takes minutes for a large image.
TEST_F(CopyThreads, ACopyThatWritesAnImageSaysThatItLives) {
  Start();
  Node second(2, transport_.get(), false);
  second.HoldImages(true);
  second.Follow(1, first_);
  EXPECT_TRUE(Eventually([&] { return second.signs() > 5; }));
  EXPECT_FALSE(first_.IsCaughtUp(2));
  second.HoldImages(false);
  EXPECT_TRUE(Eventually([&] { return first_.IsCaughtUp(2); }));
}

TEST_F(CopyThreads, ACopyWhoseDiskHangsDoesNotSayThatItLivesForEver) {
  Start();
  Node second(2, transport_.get(), false, nullptr, kSilence / 2);
  second.HoldImages(true);
  second.Follow(1, first_);
  ASSERT_TRUE(Eventually([&] { return second.signs() > 0; }));
  std::this_thread::sleep_for(kSilence);
  const int signs = second.signs();
  std::this_thread::sleep_for(kSilence);
  EXPECT_EQ(second.signs(), signs);
  second.HoldImages(false);
}

TEST_F(CopyThreads, NothingIsAcknowledgedThatACopyInSyncLacks) {
  Start();
  auto second = std::make_unique<Node>(2, transport_.get(), false);
  second->Follow(1, first_);
  ASSERT_TRUE(Eventually([&] { return first_.IsCaughtUp(2); }));
  first_.Lead(1, {1, 2}, first_.state().report());
  EXPECT_EQ(Push(1, 1), 2u);
  second->Die();
  EXPECT_EQ(Push(2, 10, 2 * kSilence), 0u);
  ASSERT_TRUE(Eventually([&] { return first_.IsSilent(2); }));
  // The run's leader stores that the second copy is no longer in sync.
  first_.Lead(1, {1}, first_.state().report());
  EXPECT_EQ(Acknowledged(kPatience), 3u);
  EXPECT_EQ(FirstWeight(first_), -11);
}

TEST_F(CopyThreads, AnOrderOfAnotherEpochIsNotCarriedOut) {
  Start();
  EXPECT_TRUE(absl::IsUnavailable(first_.Execute(AdmitWorker{ShardFixture::Key(1)}, 4, 7)));
  EXPECT_TRUE(first_.Execute(AdmitWorker{ShardFixture::Key(1)}, 4, 1).ok());
}

class CopyThreadsOfSmallMessages : public CopyThreads {
 protected:
  CopyThreadsOfSmallMessages() : CopyThreads(Small()) {}

 private:
  static TransportOptions Small() {
    TransportOptions options;
    options.max_message_bytes = sizeof(float) * kElements;
    return options;
  }
};

// The worker would ask for it again for ever.
TEST_F(CopyThreadsOfSmallMessages, AnAnswerThatCannotBeSentIsRefused) {
  Start();
  ASSERT_TRUE(worker_->Send(0, ShardFixture::PullOf(0, 7, 0)).ok());
  const auto received = worker_->Receive(kPatience);
  ASSERT_TRUE(received.has_value());
  const Refusal& refusal = received->message.header.refusal();
  EXPECT_EQ(refusal.request(), 7u);
  EXPECT_THAT(refusal.detail(), ::testing::HasSubstr("this endpoint allows 4000"));
}

class CopyThreadsWithAShortQueue : public CopyThreads {
 protected:
  CopyThreadsWithAShortQueue() : CopyThreads(Short()) {}

  void Send(const Message& message) {
    EXPECT_TRUE(Eventually([&] { return worker_->Send(0, message).ok(); }));
  }

 private:
  static TransportOptions Short() {
    TransportOptions options;
    options.send_queue_messages = 1;
    return options;
  }
};

// Slices are complete from the back to the front here. The next step needs the front first.
TEST_F(CopyThreadsWithAShortQueue, FrontLayersOvertakeOthersThatWait) {
  Start();
  Send(ShardFixture::PullOf(0, 1, 1));
  Send(ShardFixture::PushOf(0, 1, 1, {{1, Values(3, 1)}}, false));
  Send(ShardFixture::PushOf(0, 2, 1, {{0, Values(kElements, 1)}}));
  ASSERT_TRUE(Eventually([&] { return first_.state().status().pushes() == 2; }));
  std::vector<std::string> order;
  for (int i = 0; i < 4; ++i) {
    const auto received = worker_->Receive(kPatience);
    ASSERT_TRUE(received.has_value());
    const DataHeader& header = received->message.header;
    order.push_back(header.has_push_ack()
                        ? absl::StrCat("acknowledged before ", header.push_ack().next_seq())
                        : absl::StrCat("slice ", header.pull_reply().parts(0).slice()));
  }
  EXPECT_THAT(order,
              ElementsAre("acknowledged before 2", "acknowledged before 3", "slice 0", "slice 1"));
}

// Messages have headers beside the weights.
TEST(CopyPort, ItsQueueHoldsThreeMessagesWithWeights) {
  constexpr uint32_t kOneMessage = 1u << 20;
  ShardFixture shard({.elements = {kOneMessage, kOneMessage, kOneMessage, kOneMessage}});
  shard.Start(1);
  const auto replies = shard.Send(ShardFixture::PullOf(0, 1, 0));
  ASSERT_EQ(replies.size(), 4u);
  SendBudget queue(kPortQueueBytes);
  std::vector<Bytes> queued;
  for (int i = 0; i < 3; ++i) {
    const Message& reply = replies[static_cast<size_t>(i)].message;
    EXPECT_EQ(reply.PayloadBytes(), sizeof(float) * kOneMessage);
    const auto encoded = EncodeMessage(reply, TransportOptions().max_message_bytes);
    ASSERT_TRUE(encoded.ok()) << encoded.status();
    EXPECT_TRUE(queue.Fits(0, encoded->size)) << "message " << i;
    for (Bytes& frame : queue.Take(0, encoded->frames)) queued.push_back(std::move(frame));
  }
  EXPECT_FALSE(queue.Fits(0, replies[3].message.PayloadBytes()))
      << "what is in the queue cannot be overtaken";
}

// Saving may begin late. Then the image may be of a shard that another copy's image replaced.
TEST(CopyThreadImages, OnlyTheImageThatIsDueIsSaved) {
  const auto transport = MakeInProcessTransport({});
  std::vector<uint64_t> saved;
  Node node(1, transport.get(), true, &saved);
  node.Lead(1, {1}, 0);
  ShardFixture model({.elements = {kElements, 3}}, ConfigOfRun());
  ASSERT_TRUE(node.Execute(model.install(), 1, 1).ok());
  ASSERT_EQ(saved.size(), 1u);
  for (uint32_t worker = 0; worker < 2; ++worker) {
    ASSERT_TRUE(node.Execute(AdmitWorker{ShardFixture::Key(worker)}, 2 + worker, 1).ok());
    ASSERT_TRUE(Eventually([&] { return node.due().size() == 1 + worker; }));
    ASSERT_TRUE(node.copy().SaveImage(node.due()[0]).ok());  // the second time it is an old one
    EXPECT_EQ(saved.size(), 2u);
  }
  ASSERT_TRUE(node.copy().SaveImage(node.due()[1]).ok());
  EXPECT_EQ(saved.size(), 3u);
}

// Nothing else would wake the thread for a long time.
TEST(CopyThreadPort, ATaskThatComesWhileThePortOpensIsDoneAtOnce) {
  const auto transport = MakeInProcessTransport({});
  CopyThread* opened = nullptr;
  std::atomic<bool> done{false};
  CopyThreadOptions options;
  options.core.silence = std::chrono::hours(1);
  options.listen = [&] {
    opened->Execute(AdmitWorker{ShardFixture::Key(0)}, 1, 1);
    return transport->Listen("node");
  };
  options.advertised = [](const std::string& address) { return address; };
  options.callbacks.on_state = [](const CopyState&) {};
  options.callbacks.on_order = [&](uint32_t, const CopyCore::OrderDone& order) {
    done = done || order.number == 1;
  };
  CopyThread copy(std::move(options),
                  std::make_unique<DurableShard>(DurableShardOptionsOf(ConfigOfRun(), 0, 1)));
  opened = &copy;
  AssignedCopy assigned;
  assigned.set_epoch(1);
  assigned.set_leader(1);
  copy.Have(assigned, 1);
  EXPECT_TRUE(Eventually([&] { return done.load(); }));
}

// A replaced leader follows its successor, and loses the steps that only it had.
TEST_F(CopyThreads, ALeaderThatWasReplacedFollows) {
  Start();
  Node second(2, transport_.get(), false);
  second.Follow(1, first_);
  ASSERT_TRUE(Eventually([&] { return first_.IsCaughtUp(2); }));
  first_.Lead(1, {1, 2}, first_.state().report());
  EXPECT_EQ(Push(1, 1), 2u);
  second.Lead(2, {1, 2}, 0);
  first_.Follow(2, second);
  Connect(second);
  EXPECT_EQ(Push(2, 10), 3u) << "the first has it, too";
  EXPECT_TRUE(Eventually([&] {
    return first_.state().entries() == second.state().entries() && !first_.state().leads();
  }));
  EXPECT_THAT(first_.state().endpoint(), IsEmpty());
  EXPECT_EQ(FirstWeight(second), -11);
}

}  // namespace
}  // namespace psgd
