// A whole server, asked as its control service asks it.
#include "server/control/parameter_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "experiment/config/config_yaml.h"
#include "net/wire_format.h"

namespace psgd {
namespace {

using testing::SizeIs;

constexpr Duration kPatience = std::chrono::seconds(30);

// A follower that writes down whatever it is sent.
class MadeFollower final : public FollowerStream {
 public:
  bool Send(const LogPart& part) override {
    std::lock_guard lock(mutex_);
    if (part.has_record()) {
      records_.push_back(part.record());
      if (!held_ || part.record().record().chain().members_size() < 2)
        written_ = part.record().number();
    }
    if (part.shard().has_image()) written_ = part.shard().image().entry();
    if (part.shard().has_entries()) {
      const ShardPart::Entries& entries = part.shard().entries();
      written_ = entries.first() + static_cast<uint64_t>(entries.values_size()) - 1;
    }
    changed_.notify_all();
    return !ended_;
  }
  bool Receive(FollowerSays* says) override {
    std::unique_lock lock(mutex_);
    // It holds nothing at first, and says so.
    changed_.wait(lock, [&] { return ended_ || !said_ || *said_ != written_; });
    says->set_written(written_);
    said_ = written_;
    return !ended_;
  }
  bool gone() const override {
    std::lock_guard lock(mutex_);
    return ended_;
  }
  void End() override {
    std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  // Whether it writes down no record that says that it is in the chain.
  void Hold(bool held) {
    std::lock_guard lock(mutex_);
    held_ = held;
    if (!held) written_ = records_.back().number();
    changed_.notify_all();
  }

  // All records up to the first that counts so many steps.
  std::vector<LogPart::Record> Records(uint64_t steps) {
    std::unique_lock lock(mutex_);
    const auto there = [&] {
      return !records_.empty() && records_.back().record().total().steps() >= steps;
    };
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, there));
    return records_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<LogPart::Record> records_;
  uint64_t written_ = 0;
  std::optional<uint64_t> said_;
  bool held_ = false;
  bool ended_ = false;
};

class ParameterServerTest : public testing::Test {
 protected:
  ParameterServerTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "psgd-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    options_.checkpoint_dir = options_.journal_dir = folder_;
  }
  ~ParameterServerTest() override {
    for (const auto& follower : followers_) follower->End();
    for (std::thread& thread : threads_) thread.join();
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Start(const std::string& acknowledge) {
    auto config = ParseConfig(
        "name: made\nmodel: {zoo: mlp}\ndata: {format: synthetic, batch: 1}\ntrain: {epochs: 1}\n"
        "optimizer: {sgd: {learning_rate: 0.1}}\ncluster: {shards: 1, workers: 1}\ndurability: "
        "{acknowledge: " +
            acknowledge + "}\n",
        "config");
    ASSERT_TRUE(config.ok()) << config.status();
    options_.config = ResolveDefaults(*std::move(config));
    auto server = ParameterServer::Start(std::move(options_));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  JoinReply Joined() {
    JoinRequest request;
    request.set_protocol(kProtocolVersion);
    request.set_name("worker");
    const auto reply = server_->Join(request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : JoinReply();
  }
  WorkerKey Join() { return Joined().key(); }
  void Register(const WorkerKey& key) {
    RegisterRequest request;
    *request.mutable_key() = key;
    ParameterSpec* const parameter = request.mutable_model()->add_parameters();
    parameter->set_name("w");
    parameter->add_shape(10);
    request.set_batches_per_epoch(4);
    const auto reply = server_->Register(request);
    ASSERT_TRUE(reply.ok()) << reply.status();
  }
  void Report(const WorkerKey& key, uint64_t number) {
    HeartbeatRequest beat;
    *beat.mutable_key() = key;
    beat.set_number(number);
    beat.mutable_report()->set_steps(1);
    beat.mutable_report()->add_spans()->set_duration_ns(1);
    beat.mutable_report()->mutable_choices();
    ASSERT_TRUE(server_->Heartbeat(beat).ok());
  }
  static FollowerSays::Ask Ask(uint32_t replica = 0) {
    FollowerSays::Ask ask;
    ask.set_protocol(kProtocolVersion);
    ask.set_address("127.0.0.1:1");
    ask.set_replica(replica);
    ask.set_coordinator(true);
    return ask;
  }
  // The coordinator's log, for a new follower, or another.
  std::shared_ptr<MadeFollower> Follow(const FollowerSays::Ask& ask = Ask()) {
    auto stream = std::make_shared<MadeFollower>();
    followers_.push_back(stream);
    threads_.emplace_back([this, ask, stream] { (void)server_->Follow(ask, stream.get()); });
    return stream;
  }
  StatusReply Status() { return server_->Status(StatusRequest()).value_or(StatusReply()); }
  static bool Eventually(const std::function<bool()>& happened, Duration patience = kPatience) {
    const Time start = SteadyNow();
    while (!happened() && SteadyNow() - start < patience)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return happened();
  }

  std::string folder_;
  ParameterServerOptions options_;
  std::unique_ptr<ParameterServer> server_;
  std::vector<std::shared_ptr<MadeFollower>> followers_;
  std::vector<std::thread> threads_;
};

TEST_F(ParameterServerTest, AReportThatComesAgainIsHandedOnOnce) {
  std::vector<TraceSpan> spans;
  int choices = 0;
  options_.trace_steps = 10;
  options_.on_spans = [&](uint32_t, std::vector<TraceSpan> more) {
    spans.insert(spans.end(), more.begin(), more.end());
  };
  options_.on_choices = [&](const CodecChoices&) { ++choices; };
  Start("memory");
  const WorkerKey key = Join();
  Report(key, 1);
  Report(key, 1);  // its answer was lost
  EXPECT_THAT(spans, SizeIs(1));
  EXPECT_EQ(choices, 1);
  Report(key, 2);
  EXPECT_THAT(spans, SizeIs(2));
  EXPECT_EQ(choices, 2);
}

TEST_F(ParameterServerTest, AFollowerIsSentTheModelOnce) {
  Start("replicated");
  const WorkerKey key = Join();
  Register(key);
  const auto first = Follow();
  const LogPart::Record begun = first->Records(0).at(0);
  EXPECT_FALSE(begun.same_plan());
  EXPECT_EQ(begun.record().model().parameters_size(), 1);
  EXPECT_EQ(begun.record().placement().slices_size(), 1);
  Report(key, 1);
  const LogPart::Record reported = first->Records(1).back();
  EXPECT_TRUE(reported.same_plan());
  EXPECT_FALSE(reported.record().has_model());
  EXPECT_FALSE(reported.record().has_placement());
  // One that comes later has none yet.
  const auto second = Follow();
  const LogPart::Record later = second->Records(1).at(0);
  EXPECT_FALSE(later.same_plan());
  EXPECT_TRUE(later.record().has_model());
  Report(key, 2);
  EXPECT_TRUE(second->Records(2).back().same_plan());
  EXPECT_TRUE(first->Records(2).back().same_plan());
}

// It would not take over before, whatever its leader knows.
TEST_F(ParameterServerTest, AFollowerIsToldOfOnceItHasWrittenThatItIsInTheChain) {
  std::mutex mutex;
  std::vector<std::string> told;
  options_.on_news = [&](const std::string& news) {
    std::lock_guard lock(mutex);
    if (news.find("follows: acknowledgements") != std::string::npos) told.push_back(news);
  };
  const auto times = [&] {
    std::lock_guard lock(mutex);
    return told.size();
  };
  Start("replicated, takeover: 100ms");
  const WorkerKey key = Join();
  Register(key);
  const auto coordinator = Follow(Ask(2));
  coordinator->Hold(true);
  FollowerSays::Ask shard = Ask(2);
  shard.set_shard(0);
  ASSERT_TRUE(Eventually([&] { return Status().followers_size() == 1; }));
  Follow(shard);
  ASSERT_TRUE(Eventually([&] { return Status().followers(0).connected(); }));
  Report(key, 1);
  Report(key, 2);
  ASSERT_TRUE(Eventually([&] { return server_->chain().members_size() == 2; }));
  EXPECT_FALSE(Eventually([&] { return times() > 0; }, std::chrono::milliseconds(500)));
  EXPECT_FALSE(Status().followers(0).in_chain());
  coordinator->Hold(false);
  EXPECT_TRUE(Eventually([&] { return Status().followers(0).in_chain(); }));
  EXPECT_TRUE(Eventually([&] { return times() == 1; }));
}

TEST_F(ParameterServerTest, AFollowersAddressIsOneLineThatCanBeRead) {
  Start("replicated");
  for (const std::string address : {"", "host:1\nfake news", "host\x1b[2J:1"}) {
    MadeFollower stream;
    FollowerSays::Ask ask;
    ask.set_protocol(kProtocolVersion);
    ask.set_address(address);
    ask.set_coordinator(true);
    const absl::Status refused = server_->Follow(ask, &stream);
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("HOST:PORT"));
  }
}

}  // namespace
}  // namespace psgd
