// A coordinator that is made again from its record goes on as the one before.
#include "tests/unit/server_core/coordinator_fixture.h"

namespace psgd {
namespace {

std::unique_ptr<CoordinatorCore> Again(const CoordinatorRecord& record, const Config& config, Time now) {
  CoordinatorOptions options;
  options.config = config;
  auto core = std::make_unique<CoordinatorCore>(options);
  core->Restore(record, now);
  return core;
}

class CoordinatorRecordTest : public testing::Test {
 protected:
  const Config config_ = CoordinatorConfig(2, 2, 2);
  CoordinatorFixture first_{config_};
};

TEST_F(CoordinatorRecordTest, SavesWhatItRestores) {
  const WorkerKey a = first_.JoinAndRegister(), b = first_.JoinAndRegister();
  const uint64_t segment = first_.Next(a).segment().id();
  first_.Next(b);
  first_.Next(a, segment);
  const CoordinatorRecord record = first_.core().Save(first_.now());
  ASSERT_TRUE(record.has_ledger());
  const auto again = Again(record, config_, first_.now());
  EXPECT_EQ(again->Save(first_.now()).SerializeAsString(), record.SerializeAsString());
}

TEST_F(CoordinatorRecordTest, ARequestThatIsAskedAgainFindsTheSameAnswer) {
  const WorkerKey a = first_.JoinAndRegister(), b = first_.JoinAndRegister();
  const NextSegmentReply dealt = first_.Next(a);
  const auto again = Again(first_.core().Save(first_.now()), config_, first_.now());
  NextSegmentRequest request;
  *request.mutable_key() = a;
  request.set_first(true);
  Effects effects;
  EXPECT_EQ(again->NextSegment(request, first_.now(), &effects)->segment().SerializeAsString(),
            dealt.segment().SerializeAsString());
  EXPECT_TRUE(effects.commands.empty()) << "it was dealt already";
  *request.mutable_key() = b;
  EXPECT_EQ(again->NextSegment(request, first_.now(), &effects)->segment().id(), dealt.segment().id());
}

// Making the shards again may take longer than a lease.
TEST_F(CoordinatorRecordTest, LeasesStartWhenWorkersCanReachIt) {
  const WorkerKey a = first_.JoinAndRegister();
  const auto again = Again(first_.core().Save(first_.now()), config_, first_.now());
  const Time later = first_.now() + Milliseconds(config_.cluster().lease()) * 3;
  again->RenewLeases(later);
  Effects effects;
  again->Tick(later, &effects);
  EXPECT_TRUE(effects.commands.empty());
  HeartbeatRequest beat;
  *beat.mutable_key() = a;
  EXPECT_TRUE(again->Heartbeat(beat, later).ok());
  for (Time now = later; now < later + Milliseconds(config_.cluster().lease()) * 2;) {
    again->Tick(now += Milliseconds(100), &effects);
  }
  EXPECT_EQ(effects.commands.size(), 1u) << "and run out, as always";
}

}  // namespace
}  // namespace psgd
