// A run whose first worker brings the model: `model: client`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/bytes.h"
#include "tests/unit/server/coordinator/coordinator_fixture.h"

namespace psgd {
namespace {

using testing::HasSubstr;

Config ClientConfig(int epochs = 1) {
  Config config = CoordinatorConfig(/*workers=*/2, epochs, /*segment=*/8);
  config.mutable_model()->mutable_client();
  config.mutable_optimizer()->mutable_worker();
  return config;
}

class BroughtModelTest : public testing::Test {
 protected:
  static RegisterRequest Registration(const WorkerKey& key, const std::vector<float>& first) {
    RegisterRequest request;
    *request.mutable_key() = key;
    ParameterSpec* parameter = request.mutable_model()->add_parameters();
    parameter->set_name("w");
    parameter->add_shape(static_cast<int64_t>(first.size()));
    parameter->mutable_initializer()->mutable_given()->set_checksum(
        ChecksumOf(std::as_bytes(std::span(first))));
    request.set_batches_per_epoch(8);
    request.set_epochs(3);
    return request;
  }
  absl::StatusOr<RegisterReply> Register(const RegisterRequest& request) {
    return run_.core().Register(request, {"a", "b"}, run_.now(), &effects_);
  }
  absl::Status Give(const WorkerKey& key, const std::vector<float>& values, uint64_t offset = 0,
                    uint32_t parameter = 0) {
    GiveWeightsRequest part;
    *part.mutable_key() = key;
    part.set_parameter(parameter);
    part.set_offset(offset);
    part.set_values(values.data(), values.size() * sizeof(float));
    return run_.core().GiveWeights(part, run_.now());
  }
  void Leave(const WorkerKey& key) {
    LeaveRequest leave;
    *leave.mutable_key() = key;
    ASSERT_TRUE(run_.core().Leave(leave, run_.now(), &effects_).ok());
  }

  CoordinatorFixture run_{ClientConfig()};
  Effects effects_;
};

TEST_F(BroughtModelTest, TheFirstWorkerGivesTheWeightsAndOthersWait) {
  const WorkerKey one = run_.Join(), other = run_.Join();
  EXPECT_TRUE(Register(Registration(one, {1, 2, 3}))->give_weights());
  EXPECT_GT(Register(Registration(other, {4, 5, 6}))->wait_ms(), 0);
  ASSERT_TRUE(Give(one, {1, 2}).ok());
  EXPECT_TRUE(Register(Registration(one, {1, 2, 3}))->give_weights());  // one is lacking
  ASSERT_TRUE(Give(one, {3}, 2).ok());
  const auto registered = Register(Registration(one, {1, 2, 3}));
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_FALSE(registered->give_weights());
  EXPECT_EQ(registered->placement().slices_size(), 1);
  const auto& install = std::get<InstallModel>(effects_.commands.back());
  EXPECT_THAT(install.given->at("w"), testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(run_.core().config().train().epochs(), 3);
  // Other first weights are no other model.
  const auto second = Register(Registration(other, {4, 5, 6}));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->wait_ms(), 0);
  // One that leaves the epochs to the run is told them.
  RegisterRequest any = Registration(run_.Join(), {7, 8, 9});
  any.set_epochs(0);
  EXPECT_EQ(Register(any)->epochs(), 3u);
}

TEST_F(BroughtModelTest, EpochsOfTheConfigBesideOthersOfTheProgramAreNoted) {
  for (const int in_config : {1, 3, 9}) {  // 1 is the default
    CoordinatorFixture run(ClientConfig(in_config));
    const RegisterRequest request = Registration(run.Join(), {1});
    const auto registers = [&] {
      return run.core().Register(request, {"a", "b"}, run.now(), &effects_);
    };
    EXPECT_TRUE(registers()->give_weights());
    GiveWeightsRequest give;
    *give.mutable_key() = request.key();
    const float one = 1;
    give.set_values(&one, sizeof one);
    EXPECT_TRUE(run.core().GiveWeights(give, run.now()).ok());
    EXPECT_TRUE(registers().ok());
    const WorkerReport total = run.core().Status(run.now()).total();
    ASSERT_EQ(total.notes_size(), in_config == 9 ? 1 : 0);
    if (in_config == 9) {
      EXPECT_THAT(total.notes(0), HasSubstr("train.epochs: 9 of the config does nothing"));
    }
  }
}

TEST_F(BroughtModelTest, AnotherTakesThePlaceOfAWorkerThatLeft) {
  const WorkerKey one = run_.Join(), other = run_.Join();
  EXPECT_TRUE(Register(Registration(one, {1}))->give_weights());
  Leave(one);
  EXPECT_TRUE(Register(Registration(other, {4}))->give_weights());
  ASSERT_TRUE(Give(other, {4}).ok());
  EXPECT_FALSE(Register(Registration(other, {4}))->give_weights());
}

TEST_F(BroughtModelTest, PartsThatDoNotFitAreRefused) {
  const WorkerKey one = run_.Join(), other = run_.Join();
  EXPECT_FALSE(Give(one, {1}).ok());  // it did not register
  EXPECT_TRUE(Register(Registration(one, {1, 2}))->give_weights());
  EXPECT_FALSE(Give(other, {1}).ok());
  EXPECT_FALSE(Give(one, {1, 2, 3}).ok());
  EXPECT_FALSE(Give(one, {1}, 2).ok());
  EXPECT_FALSE(Give(one, {1}, UINT64_MAX).ok());
  EXPECT_FALSE(Give(one, {1}, 0, 1).ok());
  EXPECT_TRUE(Give(one, {1, 2}).ok());
}

TEST_F(BroughtModelTest, AnotherModelIsRefusedByItsFirstDifference) {
  const WorkerKey one = run_.Join(), other = run_.Join();
  EXPECT_TRUE(Register(Registration(one, {1, 2}))->give_weights());
  ASSERT_TRUE(Give(one, {1, 2}).ok());
  ASSERT_TRUE(Register(Registration(one, {1, 2})).ok());
  EXPECT_THAT(Register(Registration(other, {1, 2, 3})).status().message(),
              HasSubstr("w is 3, not 2"));
  RegisterRequest longer = Registration(other, {1, 2});
  longer.set_epochs(4);
  EXPECT_THAT(Register(longer).status().message(), HasSubstr("4 epochs, and the run for 3"));
}

TEST_F(BroughtModelTest, ProgramsEvaluateByThemselvesAndTheFirstResultStands) {
  const WorkerKey one = run_.Join();
  EXPECT_FALSE(run_.EvaluateWith(one, 1, 0.5, {}).ok());  // nothing is trained yet
  EXPECT_TRUE(Register(Registration(one, {1}))->give_weights());
  ASSERT_TRUE(Give(one, {1}).ok());
  ASSERT_TRUE(Register(Registration(one, {1})).ok());
  EXPECT_FALSE(run_.EvaluateWith(one, 4, 0.5, {}).ok());
  EXPECT_TRUE(run_.EvaluateWith(one, 1, 0.5, {}).ok());
  EXPECT_TRUE(run_.EvaluateWith(one, 1, 0.7, {}).ok());
  const StatusReply status = run_.core().Status(run_.now());
  ASSERT_EQ(status.evaluations_size(), 1);
  EXPECT_EQ(status.evaluations(0).accuracy(), 0.5);
}

TEST_F(BroughtModelTest, ResultsOfAnEpochThatGoesOnAreReplaced) {
  const WorkerKey one = run_.Join(), other = run_.Join();
  ASSERT_TRUE(Register(Registration(one, {1})).ok());
  ASSERT_TRUE(Give(one, {1}).ok());
  ASSERT_TRUE(Register(Registration(one, {1})).ok());
  ASSERT_TRUE(Register(Registration(other, {1})).ok());
  run_.Next(one);
  const Segment first = run_.Next(other).segment();
  const uint64_t end = first.first_clock() + first.clocks();
  EXPECT_TRUE(run_.EvaluateWith(one, 0.5, 0.4, {}, end).ok());
  EXPECT_TRUE(run_.EvaluateWith(one, 1, 0.5, {}, end).ok());
  Leave(other);
  const Segment again = run_.Next(one, first.id()).segment();
  ASSERT_EQ(again.epoch(), 0u);
  ASSERT_EQ(again.batches_size(), first.batches_size());
  EXPECT_TRUE(run_.EvaluateWith(one, 1, 0.6, {}, end + again.clocks()).ok());
  EXPECT_TRUE(run_.EvaluateWith(one, 1, 0.7, {}, end + again.clocks()).ok());
  // Half an epoch has passed for each worker: the first result counts.
  EXPECT_TRUE(run_.EvaluateWith(one, 0.5, 0.8, {}, end + again.clocks()).ok());
  const StatusReply status = run_.core().Status(run_.now());
  ASSERT_EQ(status.evaluations_size(), 2);
  EXPECT_EQ(status.evaluations(0).accuracy(), 0.4);
  EXPECT_EQ(status.evaluations(1).accuracy(), 0.6);
}

TEST_F(BroughtModelTest, TheEpochsOfAProgramThatIsRefusedDoNotCount) {
  const WorkerKey one = run_.Join(), other = run_.Join();
  RegisterRequest bad = Registration(one, {1});
  bad.set_batches_per_epoch(0);
  ASSERT_TRUE(Register(bad)->give_weights());
  ASSERT_TRUE(Give(one, {1}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Register(bad).status()));
  Leave(one);
  RegisterRequest good = Registration(other, {1});
  good.set_epochs(0);
  ASSERT_TRUE(Register(good)->give_weights());
  ASSERT_TRUE(Give(other, {1}).ok());
  ASSERT_TRUE(Register(good).ok());
  EXPECT_EQ(run_.core().config().train().epochs(), 1) << "as the config says";
}

TEST_F(BroughtModelTest, TheEpochsSurviveTheServer) {
  const WorkerKey one = run_.Join();
  EXPECT_TRUE(Register(Registration(one, {1}))->give_weights());
  ASSERT_TRUE(Give(one, {1}).ok());
  ASSERT_TRUE(Register(Registration(one, {1})).ok());
  CoordinatorCore again(
      CoordinatorOptions{.config = ClientConfig(), .resume = {}, .checkpoint = {}});
  again.Restore(run_.core().Save(run_.now()), run_.now());
  EXPECT_EQ(again.config().train().epochs(), 3);
}

// Another process leads a run that goes on from a checkpoint. No worker has registered yet.
TEST_F(BroughtModelTest, TheEpochsOfAResumedRunAreTheProgramsOnAnotherServerToo) {
  const WorkerKey one = run_.Join();
  RegisterRequest first = Registration(one, {1});
  first.set_epochs(0);
  EXPECT_TRUE(Register(first)->give_weights());
  ASSERT_TRUE(Give(one, {1}).ok());
  ASSERT_TRUE(Register(first).ok());
  CoordinatorRecord record = run_.core().Save(run_.now());
  record.set_loads_state(true);
  CoordinatorCore again(
      CoordinatorOptions{.config = ClientConfig(), .resume = {}, .checkpoint = {}});
  again.Restore(record, run_.now());
  const auto registered = again.Register(Registration(one, {1}), {"a", "b"}, run_.now(), &effects_);
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_EQ(registered->epochs(), 3);
}

}  // namespace
}  // namespace psgd
