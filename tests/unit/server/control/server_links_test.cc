// What the links from other servers are told, in which order, and how they end.
#include "server/control/server_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr Duration kLinkPatience = std::chrono::seconds(30);

// A stream whose other side says what the test says.
class SaidStream final : public ServingStream {
 public:
  bool Send(const LeaderSays& says) override {
    std::lock_guard lock(mutex_);
    if (ended_) return false;
    told_.push_back(says);
    changed_.notify_all();
    return true;
  }
  bool Receive(ServerSays* says) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ || !said_.empty(); });
    if (said_.empty()) return false;
    *says = std::move(said_.front());
    said_.erase(said_.begin());
    return true;
  }
  void End() override {
    std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  void Say(const std::string& name) {
    std::lock_guard lock(mutex_);
    said_.emplace_back().mutable_hello()->set_name(name);
    changed_.notify_all();
  }
  // The first messages, once there are so many.
  std::vector<LeaderSays> Told(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kLinkPatience, [&] { return told_.size() >= count; }));
    return told_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<LeaderSays> told_;
  std::vector<ServerSays> said_;
  bool ended_ = false;
};

// A server that is linked, on a thread of its own, until it ends.
class LinkedServer {
 public:
  explicit LinkedServer(ServerLinks* links) : thread_([this, links] { Serve(links); }) {
    stream_.Told(1);
  }
  ~LinkedServer() { Leave(); }

  void Leave() {
    stream_.End();
    if (thread_.joinable()) thread_.join();
  }
  SaidStream& stream() { return stream_; }
  // Its messages, as the links heard them, once it has left.
  std::vector<std::pair<uint64_t, std::string>> heard() const { return heard_; }
  uint64_t number() const { return number_; }

 private:
  void Serve(ServerLinks* links) {
    LeaderSays begins;
    begins.mutable_begin()->set_run_id("run");
    const auto number =
        links->Serve(begins, &stream_, [this](uint64_t link, const ServerSays& says) {
          heard_.emplace_back(link, says.hello().name());
        });
    if (number.ok()) number_ = *number;
  }

  SaidStream stream_;
  std::vector<std::pair<uint64_t, std::string>> heard_;
  uint64_t number_ = 0;
  std::thread thread_;
};

LeaderSays SaysLeader(const std::string& address) {
  LeaderSays says;
  says.set_leader(address);
  return says;
}

CoordinatorRecord::Pass PassOf(uint32_t worker, uint32_t incarnation) {
  CoordinatorRecord::Pass pass;
  pass.mutable_key()->set_worker(worker);
  pass.mutable_key()->set_incarnation(incarnation);
  pass.set_token("token " + std::to_string(worker) + "." + std::to_string(incarnation));
  return pass;
}

// The tokens with which a new link begins.
std::vector<std::string> TokensAtBegin(ServerLinks* links) {
  LinkedServer server(links);
  std::vector<std::string> tokens;
  const std::vector<LeaderSays> told = server.stream().Told(1);
  for (const auto& pass : told[0].begin().passes()) tokens.push_back(pass.token());
  return tokens;
}

TEST(ServerLinks, EachIsToldWhatIsForIt) {
  ServerLinks links(nullptr);
  LinkedServer first(&links), second(&links);
  links.Tell(1, SaysLeader("for the first"));
  links.TellAll(SaysLeader("for all"));
  links.Tell(7, SaysLeader("for nobody"));
  const auto one = first.stream().Told(3);
  ASSERT_EQ(one.size(), 3u);
  EXPECT_EQ(one[0].begin().run_id(), "run");
  EXPECT_EQ(one[1].leader(), "for the first");
  EXPECT_EQ(one[2].leader(), "for all");
  const auto two = second.stream().Told(2);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[1].leader(), "for all");
}

TEST(ServerLinks, AreHeardUntilTheyEnd) {
  ServerLinks links(nullptr);
  {
    LinkedServer first(&links), second(&links);
    second.Leave();
    EXPECT_EQ(second.number(), 2u);
    links.Tell(2, SaysLeader("for one that left"));
    first.stream().Say("a");
    first.stream().Say("b");
    links.Tell(1, SaysLeader("it is there"));
    EXPECT_EQ(first.stream().Told(2)[1].leader(), "it is there");
    first.Leave();
    EXPECT_THAT(first.heard(), ElementsAre(Pair(1, "a"), Pair(1, "b")));
    EXPECT_THAT(second.heard(), IsEmpty());
  }
  links.WaitUntilNone(kLinkPatience);
  LinkedServer third(&links);
  third.Leave();
  EXPECT_EQ(third.number(), 3u) << "a number is used once";
}

TEST(ServerLinks, ANewLinkBeginsWithThePassesOfThoseWhoMaySpeak) {
  const auto members = std::make_shared<AllowList>();
  ServerLinks links(members);
  links.Admit(PassOf(0, 1));
  links.Admit(PassOf(1, 1));
  EXPECT_TRUE(members->Belongs("token 1.1", 1, 1));
  EXPECT_THAT(TokensAtBegin(&links), ElementsAre("token 0.1", "token 1.1"));
  links.Admit(PassOf(0, 2));
  links.Expel(PassOf(0, 1).key());  // which comes late, after the worker came back
  EXPECT_THAT(TokensAtBegin(&links), ElementsAre("token 0.2", "token 1.1"));
  EXPECT_TRUE(members->Knows("token 0.2"));
  EXPECT_FALSE(members->Knows("token 0.1"));
  links.Expel(PassOf(0, 2).key());
  EXPECT_THAT(TokensAtBegin(&links), ElementsAre("token 1.1"));
  EXPECT_FALSE(members->Knows("token 0.2"));
}

TEST(ServerLinks, WithoutSecurityNobodyNeedsAPass) {
  ServerLinks links(nullptr);
  links.Admit(PassOf(0, 1));
  EXPECT_THAT(TokensAtBegin(&links), IsEmpty());
  links.Expel(PassOf(0, 1).key());
}

TEST(ServerLinks, AStopEndsAllAndRefusesLaterOnes) {
  ServerLinks links(nullptr);
  LinkedServer first(&links), second(&links);
  links.Stop();
  links.WaitUntilNone(kLinkPatience);
  SaidStream late;
  const auto refused = links.Serve({}, &late, [](uint64_t, const ServerSays&) {});
  EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
  EXPECT_THAT(late.Told(0), IsEmpty());
}

}  // namespace
}  // namespace psgd
