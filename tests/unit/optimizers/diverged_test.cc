#include "optimizers/diverged.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(DivergedText, AdvisesWhatTheConfigAllows) {
  Config config;
  config.mutable_optimizer()->mutable_sgd()->set_learning_rate(10);
  EXPECT_THAT(
      DivergedText(config),
      AllOf(HasSubstr("(optimizer.sgd.learning_rate is 10)"), HasSubstr("(train.clip: {norm: 1})"),
            HasSubstr("a warm-up (schedule.warmup)"), Not(HasSubstr("staleness"))))
      << "staleness is 0, the least";
  config.mutable_consistency()->set_staleness(4);
  config.mutable_train()->mutable_clip()->set_norm(1);
  EXPECT_THAT(DivergedText(config), AllOf(HasSubstr("(lower train.clip)"),
                                          HasSubstr("or a lower consistency.staleness")));
}

TEST(DivergedText, LocalStepsHaveTheirOwnOptimizer) {
  Config config;
  config.mutable_local()->set_steps(8);
  config.mutable_local()->mutable_optimizer()->mutable_sgd()->set_learning_rate(10);
  EXPECT_THAT(DivergedText(config), AllOf(HasSubstr("(local.optimizer.sgd.learning_rate is 10)"),
                                          HasSubstr("(local.schedule.warmup)")));
}

TEST(DivergedText, AProgramHasItsOwnOptimizer) {
  Config config;
  config.mutable_model()->mutable_client();
  config.mutable_optimizer()->mutable_worker();
  const auto is_the_programs =
      AllOf(HasSubstr("(of the program's optimizer)"), HasSubstr("torch.nn.utils.clip_grad_norm_"),
            HasSubstr("torch.optim.lr_scheduler"), Not(HasSubstr("train.clip")),
            Not(HasSubstr("schedule.warmup")));
  EXPECT_THAT(DivergedText(config), is_the_programs);
  config.mutable_optimizer()->mutable_sgd()->set_learning_rate(10);
  EXPECT_THAT(DivergedText(config), AllOf(HasSubstr("(optimizer.sgd.learning_rate is 10)"),
                                          HasSubstr("torch.nn.utils.clip_grad_norm_")));
  config.mutable_local()->set_steps(8);
  EXPECT_THAT(DivergedText(config), is_the_programs);
}

TEST(SaysDiverged, FindsTheText) {
  EXPECT_TRUE(SaysDiverged(DivergedText(Config())));
  EXPECT_FALSE(SaysDiverged("no worker is left"));
}

}  // namespace
}  // namespace psgd
