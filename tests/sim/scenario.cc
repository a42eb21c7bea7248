#include "tests/sim/scenario.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/local_steps.h"
#include "simulate/chance.h"
#include "tests/sim/gradients.h"

namespace psgd::sim {
namespace {

constexpr int kLongestTraining = static_cast<int>(kClocks);

Config BaseConfig() {
  Config config;
  config.mutable_train()->set_max_steps(kLongestTraining);
  config.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
  config.mutable_schedule()->mutable_constant();
  config.mutable_consistency()->set_reduction(ConsistencyConfig::SUM);
  config.mutable_compression()->mutable_push()->mutable_none();
  config.mutable_compression()->mutable_pull()->mutable_none();
  ClusterConfig* cluster = config.mutable_cluster();
  cluster->set_lease(1000);
  cluster->set_resend(100);
  cluster->set_deadline(6000);
  return config;
}

}  // namespace

ModelSpec SimulatedModel(int slices) {
  ModelSpec model;
  model.set_name("register");
  for (int i = 0; i < slices; ++i) {
    ParameterSpec* parameter = model.add_parameters();
    parameter->set_name(absl::StrCat("p", i));
    parameter->add_shape(kRegister + kContents + i);
    parameter->mutable_initializer()->mutable_constant()->set_value(kInitial);
  }
  return model;
}

Scenario RandomScenario(uint64_t seed) {
  Chance chance(seed, 0);
  Scenario s;
  s.seed = s.network_seed = seed;
  s.config = BaseConfig();
  s.model = SimulatedModel(static_cast<int>(chance.Between(1, 5)));
  s.processes = static_cast<int>(chance.Between(1, 4));
  s.config.set_seed(seed);
  s.config.mutable_cluster()->set_shards(static_cast<int>(chance.Between(1, 3)));
  s.config.mutable_cluster()->set_workers(s.processes);
  s.config.mutable_cluster()->set_segment(static_cast<int>(chance.Between(1, 6)));
  s.config.mutable_train()->set_epochs(static_cast<int>(chance.Between(1, 3)));
  s.config.mutable_consistency()->set_staleness(chance.Choice({0, 0, 1, 2, 4, -1}));
  s.config.mutable_consistency()->set_pull_ahead(s.config.consistency().staleness() != 0 &&
                                                 chance.Happens(0.4));
  switch (chance.Between(0, 3)) {
    case 0:
      s.config.mutable_durability()->mutable_checkpoint()->set_epochs(1);
      break;
    case 1:
      s.config.mutable_durability()->mutable_checkpoint()->set_steps(5);
      break;
    case 2:
      s.config.mutable_durability()->mutable_checkpoint()->set_steps(1);
      break;
    default:
      break;
  }
  // At most as many updates as fit the register even if one worker makes them all.
  s.batches_per_epoch = static_cast<uint32_t>(chance.Between(3, 14));

  s.network.drop = chance.Choice({0.0, 0.02, 0.2});
  s.network.repeat = chance.Choice({0.0, 0.05, 0.3});
  s.network.slow = chance.Choice({0.0, 0.05, 0.3});
  s.network.ordered = chance.Happens(0.5);
  s.crashes = static_cast<int>(chance.Choice({0, 0, 1, 2, 3}));
  s.restarts = static_cast<int>(chance.Between(0, 3));
  s.pauses = static_cast<int>(chance.Choice({0, 0, 1, 3}));
  s.leavers = static_cast<int>(chance.Choice({0, 0, 1}));
  s.partitions = static_cast<int>(chance.Choice({0, 0, 1, 3}));
  // Long steps leave time for faults before the run ends.
  s.longest_step =
      chance.Choice<Duration>({std::chrono::milliseconds(20), std::chrono::milliseconds(20),
                               std::chrono::milliseconds(150)});
  s.poison = chance.Choice({0.0, 0.0, 0.1});
  s.failed_checkpoints = chance.Choice({0.0, 0.0, 0.3});
  if (chance.Happens(0.15)) s.slow_step = std::chrono::seconds(9);
  s.reply_bytes = chance.Choice<size_t>({1, 8u << 10, 4u << 20});
  s.held_bytes = chance.Choice<size_t>({1, 20u << 10, 1u << 30, 1u << 30});
  s.window_bytes = chance.Choice<size_t>({1, 12u << 10, 64u << 20});
  s.fuse_bytes = chance.Choice<size_t>({0, 8u << 10, 64u << 10});
  if (chance.Happens(0.1)) {
    s.drain_after = chance.Between(std::chrono::milliseconds(1), std::chrono::milliseconds(800));
  }
  if (chance.Happens(0.3)) {
    s.config.mutable_local()->set_steps(static_cast<int>(chance.Between(2, 4)));
    s.config.mutable_local()->set_fragments(static_cast<int>(
        chance.Between(1, std::min(s.config.local().steps(), s.model.parameters_size()))));
    s.config.mutable_consistency()->set_pull_ahead(false);
  }
  Chance uneven(seed, 98);
  if (TakesLocalSteps(s.config.local()) && uneven.Happens(0.4)) {
    s.config.mutable_local()->set_steps(0);  // auto
    s.config.mutable_local()->set_most(4);
  }
  Chance bad(seed, 96);
  if (bad.Happens(0.25)) {
    const int most = static_cast<int>(bad.Between(1, 3));
    s.config.mutable_cluster()->set_quarantine(most);
    s.poison = most == 1 ? 0.1 : 0.5;
  }
  if (s.config.consistency().staleness() == 0 && chance.Happens(0.5)) {
    s.config.mutable_consistency()->set_quorum(static_cast<int>(chance.Between(1, s.processes)));
    s.config.mutable_consistency()->set_grace(chance.Choice({0, 5, 50}));
  }
  return s;
}

Scenario CalmScenario(uint64_t seed, int workers, int64_t staleness) {
  Scenario s;
  s.seed = s.network_seed = seed;
  s.config = BaseConfig();
  s.config.set_seed(seed);
  s.config.mutable_train()->set_epochs(2);
  s.config.mutable_cluster()->set_shards(3);
  s.config.mutable_cluster()->set_workers(workers);
  s.config.mutable_cluster()->set_segment(4);
  s.config.mutable_consistency()->set_staleness(staleness);
  s.config.mutable_durability()->mutable_checkpoint()->set_steps(4);
  s.model = SimulatedModel(5);
  s.batches_per_epoch = 14;
  s.processes = workers;
  return s;
}

void PullChanges(Scenario* scenario) {
  scenario->config.mutable_compression()->mutable_push()->mutable_topk()->set_density(0.01);
  scenario->config.mutable_compression()->mutable_pull()->mutable_delta();
}

std::string Describe(const Scenario& s) {
  return absl::StrCat(
      "seed ", s.seed, ": ", s.processes, " workers, ", s.config.cluster().shards(), " shards, ",
      s.model.parameters_size(), " slices, staleness ", s.config.consistency().staleness(),
      ", quorum ", s.config.consistency().quorum(), ", local steps ",
      s.config.local().steps() == 0 ? "auto" : absl::StrCat(s.config.local().steps()), " in ",
      s.config.local().fragments(), " fragments, ", s.config.train().epochs(), " epochs of ",
      s.batches_per_epoch, ", segments of ", s.config.cluster().segment(), ", drop ",
      s.network.drop, ", repeat ", s.network.repeat, ", slow ", s.network.slow,
      s.network.ordered ? ", ordered" : "", ", crashes ", s.crashes, ", restarts ", s.restarts,
      ", pauses ", s.pauses, ", leavers ", s.leavers, ", partitions ", s.partitions, ", poison ",
      s.poison, ", quarantine after ", s.config.cluster().quarantine(), ", ",
      DurabilityConfig::Acknowledge_Name(s.config.durability().acknowledge()), ", torn images ",
      s.torn_images, ", full disks ", s.full_disks, ", images after ", s.image_after,
      ", failed checkpoints ", s.failed_checkpoints, ", slow step ", Seconds(s.slow_step),
      " s, drained after ", Seconds(s.drain_after),
      s.config.consistency().pull_ahead() ? " s, pull ahead" : " s", ", reply ", s.reply_bytes,
      ", held ", s.held_bytes, ", window ", s.window_bytes, ", fuse ", s.fuse_bytes);
}

}  // namespace psgd::sim
