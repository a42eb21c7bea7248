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
  kRepeatPush,      // a push is applied twice, under the next number
  kApplyRepeats,    // so is one that the network repeats, or its worker sends again
  kLosePush,        // an acknowledged push loses its parts
  kLosePart,        // an acknowledged push loses one of its parts
  kChangePush,      // one element of a push is off by one
  kForgePush,       // a push says that it is another worker's
  kCleanPoison,     // one that is not finite is made so
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
  kClaimNewer,      // pulls claim that their worker holds a version more than it does
  kForgetOrders,    // a server that is started again does not give its last orders again
  kOldRecord,       // it finds an old record of the coordinator
  kDontWait,        // the leader goes on when the server that follows did not answer
  kHideStep,        // the server's clock runs far ahead, tick by tick
  // Of a shard that moves to another server:
  kDontStandStill,  // the one that gave it goes on
  kLoseSteps,       // the last ones of the one that gave it do not reach the other
  kForgetNumbers,   // its image lacks a number of each worker that it absorbed
  kTellUnwritten,   // the new one goes on, and workers are told, though it is not written down who
                    // holds it
  kKeepMove,        // the move goes on although a server of it was away and came back
};

// What goes wrong at a time that somebody wrote down.
struct Event {
  enum What {
    kKill,
    kPower,
    kPause,
    kCut,
    kFullDisk,
    kClock,
    kStart,
    kDisconnect,
    kLeave,
    kMove,
    kDrop,
    kRepeat,
    kSlow,
    kDrain
  };
  static constexpr uint32_t kStandby = UINT32_MAX;

  What what = kKill;
  Duration at{};      // from the start
  Duration length{};  // of what ends by itself
  bool at_worker = false;
  uint32_t who = 0;    // a worker's process, or a server from 1 on, or kStandby
  uint32_t shard = 0;  // that moves, or that a worker is cut off from
  bool from_coordinator = false, from_all = false;
  Duration step{};  // of a clock
  double rate = 0;
  bool writing_image = false;
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
  int partitions = 0;
  double poison = 0;  // share of steps with a NaN in them
  double failed_checkpoints = 0;
  int server_crashes = 0;
  int power_losses = 0;  // of the server's machine
  double torn_images =
      0;  // then, share of disks whose newest image is cut off although it was synced
  int server_pauses = 0;  // of any server
  int full_disks = 0;
  int standby_deaths = 0;  // of the server that follows, where one does
  // Servers that join the first, and what befalls them.
  int joined = 0;
  int joined_crashes = 0;
  int joined_power_losses = 0;
  int broken_connections = 0;
  int leaves = 0;
  double moves = 0;         // share of the mover's looks at which somebody asks for another
  double broken_calls = 0;  // share of calls at which the connection breaks
  double late_calls = 0;    // share that comes late, and whose answer is not waited for
  double killed_moves = 0;  // share of a move's steps at which a server of it dies
  int clock_steps = 0;      // ahead or back, of the server's clock or a worker's
  Duration disk_delay{};    // at most, until a shard's steps are written down
  uint64_t image_after = 1u << 30;
  DiskFault disk_fault = DiskFault::kNone;
  Duration drain_after{};  // not 0: the run is drained then
  Duration longest_step = std::chrono::milliseconds(20);
  std::vector<Event> events;
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
// For the trace.
std::string Describe(const Scenario& scenario);

}  // namespace psgd::sim
