// What a seed stands for: one cluster, its configuration and its misfortunes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/clock.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"
#include "tests/sim/network.h"
#include "tests/sim/storage.h"

namespace psgd::sim {

// Deliberate breaches between the network and the shards, each of which a checker must find.
enum class Sabotage {
  kNone,
  kRepeatPush,      // a push is applied twice, the second time under the next number
  kRepeatLate,      // the same for a push whose clock has gone on without it
  kApplyRepeats,    // the same for a push that the network repeats, or its worker sends again
  kLosePush,        // an acknowledged push loses its parts
  kLosePart,        // an acknowledged push loses one of its parts
  kChangePush,      // one element of a push is off by one
  kForgePush,       // a push says that it is another worker's
  kCleanPoison,     // a push that is not finite is made finite
  kHidePoison,      // a push that is not finite loses its parts
  kIgnoreGate,      // pulls claim to come from the slowest worker
  kGateOff,         // the shards take the bound for unbounded
  kForgetOwn,       // pulls do not ask for the worker's own updates
  kLateCut,         // one shard cuts a clock later than the others
  kEarlyCut,        // one shard cuts a clock earlier
  kIgnoreMarker,    // one shard's cut has what it absorbed after it, too
  kChangeState,     // what a worker saves for a checkpoint is another clock's
  kForgetResidual,  // a worker forgets what its codec left behind
  kKeepDead,        // one shard is not told that a worker is out
  kRefuseSound,     // a push is damaged on its way
  kClaimSteps,      // workers report steps that they have not done
  kTrustLost,       // nobody notices that a worker has weights that the shard has lost
  kClaimNewer,      // pulls claim that their worker holds a version more than it does
};

struct Scenario {
  uint64_t seed = 0;
  Config config;
  ModelSpec model;
  uint32_t batches_per_epoch = 0;
  NetworkOptions network;
  uint64_t network_seed = 0;  // may differ from `seed`: another schedule of the same training
  int processes = 0;          // started in the beginning
  int crashes = 0;
  int restarts = 0;  // processes started later, after crashes or as late joiners
  int pauses = 0;
  int leavers = 0;  // workers that are asked to leave while the run goes on
  int partitions = 0;
  double poison = 0;  // share of steps with a NaN in them
  double failed_checkpoints = 0;
  // When power is lost, share of disks whose newest image is cut off although it was synced.
  double torn_images = 0;
  int full_disks = 0;
  uint64_t image_after = 1u << 30;
  DiskFault disk_fault = DiskFault::kNone;
  Duration drain_after{};  // not 0: the run is drained then
  Duration longest_step = std::chrono::milliseconds(20);
  Duration slow_step{};            // one worker once computes for so long
  size_t given_bytes = 64u << 20;  // of steps of a shard that moves
  size_t reply_bytes = 4u << 20;
  size_t held_bytes = 1u << 30;
  size_t window_bytes = 64u << 20;
  size_t fuse_bytes = 64u << 10;
  bool smooth = false;  // real-valued gradients that depend on the weights, for bit identity
  Sabotage sabotage = Sabotage::kNone;
  Duration patience = std::chrono::seconds(90);  // for the run to end after everything healed
};

inline constexpr Duration kFaultsFor = std::chrono::seconds(4);

// Slices, each of a parameter of its own.
ModelSpec SimulatedModel(int slices);
// Everything drawn from the seed.
Scenario RandomScenario(uint64_t seed);
// No faults but delays, `workers` workers throughout.
Scenario CalmScenario(uint64_t seed, int workers, int64_t staleness);
// Workers push sparse updates, and pull what those changed.
void PullChanges(Scenario* scenario);
// For the trace.
std::string Describe(const Scenario& scenario);

}  // namespace psgd::sim
