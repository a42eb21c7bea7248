// One suite over all stores of a run's chain; then what only etcd can do to one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "net/etcd/etcd_chain_store.h"
#include "server/chain.h"
#include "tests/conformance/chain/fake_etcd.h"

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using As = ChainStore::As;

constexpr Duration kSilence = std::chrono::seconds(1);

Chain::Member MemberOf(uint32_t replica) {
  Chain::Member member;
  member.set_replica(replica);
  member.set_address(absl::StrCat("host-", replica, ":7070"));
  return member;
}

std::vector<uint32_t> Replicas(const Chain& chain) {
  std::vector<uint32_t> replicas;
  for (const Chain::Member& member : chain.members()) replicas.push_back(member.replica());
  return replicas;
}

class ChainStores : public testing::TestWithParam<std::string> {
 protected:
  // Of one run, as several servers have it.
  std::shared_ptr<ChainStore> Open() {
    if (GetParam() == "etcd") {
      return std::make_shared<EtcdChainStore>(EtcdOptions{.members = {etcd_.address()}, .credentials = {}},
                                              "run", kSilence);
    }
    if (recorded_ == nullptr) recorded_ = std::make_shared<RecordedChain>(Chain());
    return recorded_;
  }

  FakeEtcd etcd_;

 private:
  std::shared_ptr<ChainStore> recorded_;
};

TEST_P(ChainStores, HoldsWhatItWasGiven) {
  const auto store = Open();
  EXPECT_EQ(store->Read()->revision, 0);
  const Chain chain = With(NewChain(1, "host-1:7070"), MemberOf(2));
  const auto revision = store->Replace(0, chain, As::kSuccessor);
  ASSERT_TRUE(revision.ok()) << revision.status();
  const auto held = Open()->Read();
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->revision, *revision);
  EXPECT_EQ(held->chain.SerializeAsString(), chain.SerializeAsString());
  EXPECT_TRUE(store->Keep(*revision).ok());
}

TEST_P(ChainStores, RefusesAChangeOfWhatIsNoLongerThere) {
  const auto store = Open();
  const Chain chain = NewChain(1, "host-1:7070");
  const int64_t first = *store->Replace(0, chain, As::kSuccessor);
  EXPECT_TRUE(absl::IsAborted(store->Replace(0, NewChain(7, "host-7:7070"), As::kSuccessor).status()));
  const int64_t second = *store->Replace(first, With(chain, MemberOf(2)), As::kLeader);
  EXPECT_NE(first, second);
  EXPECT_TRUE(absl::IsAborted(store->Replace(first, With(chain, MemberOf(3)), As::kLeader).status()));
  EXPECT_TRUE(absl::IsAborted(store->Remove(first)));
  EXPECT_THAT(Replicas(store->Read()->chain), ElementsAre(1, 2));
}

TEST_P(ChainStores, OfSeveralChangesOneComesToPass) {
  Chain chain = NewChain(1, "host-1:7070");
  int64_t revision = *Open()->Replace(0, chain, As::kSuccessor);
  for (int round = 0; round < 20; ++round) {
    std::vector<absl::StatusOr<int64_t>> outcomes(4, absl::UnknownError(""));
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < outcomes.size(); ++i) {
      threads.emplace_back([&, i, store = Open()] {
        outcomes[i] = store->Replace(revision, With(chain, MemberOf(100 + i)), As::kLeader);
      });
    }
    for (std::thread& thread : threads) thread.join();
    int came = 0;
    for (uint32_t i = 0; i < outcomes.size(); ++i) {
      if (!outcomes[i].ok()) {
        EXPECT_TRUE(absl::IsAborted(outcomes[i].status())) << outcomes[i].status();
        continue;
      }
      ++came;
      chain = With(chain, MemberOf(100 + i));
      revision = *outcomes[i];
    }
    ASSERT_EQ(came, 1);
    EXPECT_EQ(Open()->Read()->chain.SerializeAsString(), chain.SerializeAsString());
  }
}

TEST_P(ChainStores, IsEmptyOnceARunIsOver) {
  const auto store = Open();
  const int64_t revision = *store->Replace(0, NewChain(1, "host-1:7070"), As::kSuccessor);
  EXPECT_TRUE(store->Remove(revision).ok());
  EXPECT_EQ(Open()->Read()->revision, 0);
  EXPECT_THAT(etcd_.Contents(), IsEmpty());
  EXPECT_EQ(etcd_.leases(), 0u);
  EXPECT_TRUE(store->Replace(0, NewChain(1, "host-1:7070"), As::kSuccessor).ok()) << "its name is free";
}

INSTANTIATE_TEST_SUITE_P(Stores, ChainStores, testing::Values("recorded", "etcd"),
                         [](const auto& info) { return info.param; });

class EtcdChain : public testing::Test {
 protected:
  EtcdChain() { store_ = Open({etcd_.address()}); }
  static std::unique_ptr<EtcdChainStore> Open(std::vector<std::string> members) {
    return std::make_unique<EtcdChainStore>(
        EtcdOptions{.members = std::move(members), .credentials = {}}, "run", kSilence);
  }
  int64_t Begin() {
    chain_ = With(NewChain(1, "host-1:7070"), MemberOf(2));
    return *store_->Replace(0, chain_, As::kSuccessor);
  }

  FakeEtcd etcd_;
  std::unique_ptr<EtcdChainStore> store_;
  Chain chain_;
};

TEST_F(EtcdChain, NobodySucceedsALeaderWhoseLeaseRuns) {
  const int64_t revision = Begin();
  EXPECT_TRUE(store_->Read()->led);
  const auto other = Open({etcd_.address()});
  EXPECT_TRUE(absl::IsAborted(other->Replace(revision, TakenOver(chain_, 2), As::kSuccessor).status()));
  etcd_.EndLeases();
  EXPECT_FALSE(store_->Read()->led);
  const auto taken = other->Replace(revision, TakenOver(chain_, 2), As::kSuccessor);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_TRUE(store_->Read()->led);
  EXPECT_TRUE(absl::IsAborted(store_->Keep(revision))) << "it leads no more";
  EXPECT_EQ(etcd_.Contents()["/psgd/run/leader"], "host-2:7070");
}

TEST_F(EtcdChain, ALeaseThatIsNotRenewedInTimeIsNotWaitedFor) {
  const int64_t revision = Begin();
  etcd_.PassSeconds(1);
  EXPECT_TRUE(store_->Read()->led);
  ASSERT_TRUE(store_->Keep(revision).ok());
  etcd_.PassSeconds(1);
  EXPECT_TRUE(store_->Read()->led) << "it was renewed before";
  etcd_.PassSeconds(1);
  EXPECT_FALSE(store_->Read()->led);
  const auto taken = Open({etcd_.address()})->Replace(revision, TakenOver(chain_, 2), As::kSuccessor);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(etcd_.Contents()["/psgd/run/leader"], "host-2:7070");
  EXPECT_EQ(etcd_.leases(), 1u) << "the new leader's";
}

TEST_F(EtcdChain, ALeaderThatRenewsAgainBeforeItIsSucceededStays) {
  const int64_t revision = Begin();
  etcd_.PassSeconds(2);
  EXPECT_FALSE(store_->Read()->led);
  ASSERT_TRUE(store_->Keep(revision).ok());
  EXPECT_TRUE(store_->Read()->led);
  EXPECT_TRUE(absl::IsAborted(
      Open({etcd_.address()})->Replace(revision, TakenOver(chain_, 2), As::kSuccessor).status()));
  EXPECT_TRUE(store_->Keep(revision).ok());
}

TEST_F(EtcdChain, ALeaderWhoseLeaseRanOutTakesAnotherIfNobodyElseLeads) {
  const int64_t revision = Begin();
  etcd_.EndLeases();
  ASSERT_TRUE(store_->Keep(revision).ok());
  EXPECT_TRUE(store_->Read()->led);
  etcd_.EndLeases();
  EXPECT_TRUE(store_->Replace(revision, Without(chain_, 2), As::kLeader).ok());
  EXPECT_TRUE(store_->Read()->led);
}

TEST_F(EtcdChain, AChangeWhoseAnswerWasLostIsFoundToHaveComeToPass) {
  const int64_t revision = Begin();
  etcd_.LoseAnswers(1);
  const Chain next = Without(chain_, 2);
  EXPECT_TRUE(absl::IsUnavailable(store_->Replace(revision, next, As::kLeader).status()));
  const auto again = store_->Replace(revision, next, As::kLeader);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, store_->Read()->revision);
  EXPECT_THAT(Replicas(store_->Read()->chain), ElementsAre(1));
}

TEST_F(EtcdChain, OneThatIsAwayIsSaidToBe) {
  const int64_t revision = Begin();
  etcd_.SetAway(true);
  const auto held = store_->Read();
  ASSERT_TRUE(absl::IsUnavailable(held.status())) << held.status();
  EXPECT_THAT(std::string(held.status().message()), HasSubstr("etcd at " + etcd_.address()));
  EXPECT_THAT(std::string(held.status().message()), HasSubstr("is it running there"));
  etcd_.SetAway(false);
  EXPECT_TRUE(store_->Keep(revision).ok());
}

TEST_F(EtcdChain, OfSeveralMembersThoseThatAnswerDo) {
  const int64_t revision = Begin();
  const auto several = Open({"127.0.0.1:1", etcd_.address()});
  const auto held = several->Read();
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->revision, revision);
}

TEST_F(EtcdChain, WhatIsNotEtcdIsSaidNotToBe) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  etcdserverpb::Lease::Service another;
  builder.RegisterService(&another);
  const auto server = builder.BuildAndStart();
  const auto held = Open({absl::StrCat("127.0.0.1:", port)})->Read();
  EXPECT_TRUE(absl::IsFailedPrecondition(held.status())) << held.status();
  EXPECT_THAT(std::string(held.status().message()), HasSubstr("is not etcd with its v3 interface"));
}

TEST_F(EtcdChain, WhatIsNoChainIsSaidNotToBe) {
  for (const char* value : {"", "{", "[]", "{}", R"({"members":[{"replica":0,"address":"a:1"}]})",
                            R"({"members":[{"replica":1}]})", R"({"members":7})"}) {
    etcd_.Write("/psgd/run/chain", value);
    const auto held = store_->Read();
    ASSERT_TRUE(absl::IsFailedPrecondition(held.status())) << value << ": " << held.status();
    EXPECT_THAT(std::string(held.status().message()), HasSubstr("under /psgd/run/chain"));
  }
}

TEST_F(EtcdChain, ServersOfARunAreFoundByItsName) {
  EXPECT_TRUE(absl::IsNotFound(ServersOf(*store_, "run").status()));
  Begin();
  EXPECT_THAT(*ServersOf(*store_, "run"), ElementsAre("host-1:7070", "host-2:7070"));
  EXPECT_TRUE(CheckRunName("fashion-mnist_2.0").ok());
  for (const char* name : {"", "a/b", "a b", "../x"}) EXPECT_FALSE(CheckRunName(name).ok()) << name;
}

TEST(ParseEtcd, TakesWhatPeopleWrite) {
  const auto credentials = std::make_shared<const Credentials>();
  EXPECT_THAT(ParseEtcd("a:1,http://b:2", nullptr)->members, ElementsAre("a:1", "b:2"));
  EXPECT_EQ(ParseEtcd("127.0.0.1:2379", credentials)->credentials, nullptr);
  EXPECT_EQ(ParseEtcd("https://a:1,https://b:2", credentials)->credentials, credentials);
  for (const char* bad : {"", "a", "a:0", "a:1,", "https://a:1,b:2", "https://a:1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseEtcd(bad, nullptr).status())) << bad;
  }
  const absl::Status open = ParseEtcd("a:1", credentials).status();
  EXPECT_THAT(std::string(open.message()), HasSubstr("write https://a:1"));
}

}  // namespace
}  // namespace psgd
