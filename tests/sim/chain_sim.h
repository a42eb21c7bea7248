// Servers that settle by a store who leads, while answers of the store get lost or its changes come
// to pass late, servers die, hang and come back, and links break between any two steps. Real are
// the chain's rules and what a leader knows of its followers (server/control/chain.h,
// chain_keeper.h, follower_set.h); a shard is a list of numbers.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "server/control/chain_keeper.h"
#include "simulate/chance.h"

namespace psgd::sim {

// What is broken on purpose, to see that it is found out.
enum class ChainSabotage {
  kNone,
  kStoreComparesNothing,  // whoever asks for a change gets it
  kForgetBeforeTheChain,  // acknowledgements wait no more for a follower that the chain still holds
  kSayWrittenBeforehand,  // a follower
  kForgetWhenItCameIn,    // a follower that left and came back is taken for what it was
};

struct StoreRegister {
  Chain chain;
  int64_t revision = 0;
  int64_t changes = 0;
  bool led = false;
  std::vector<std::function<void()>> late;  // changes that are still under way
};

class ChainSim {
 public:
  ChainSim(uint64_t seed, ChainSabotage sabotage);

  // What went wrong; empty: nothing.
  std::string Run(int steps);
  size_t acknowledged() const { return acknowledged_.size(); }
  int takeovers() const { return takeovers_; }

 private:
  struct Server {
    uint32_t replica = 0;
    std::string address;
    std::shared_ptr<ChainStore> store;
    bool up = false;
    // On its disk; and on one that it once had, which somebody may start it from again.
    std::vector<int> entries, old_entries;
    Chain own, old_own;
    // Of one that follows.
    uint32_t follows = 0;  // whom; 0: nobody
    std::shared_ptr<FollowerLog> log, records;
    bool complete = false, has_record = false;
    // Of one that leads.
    std::shared_ptr<FollowerSet> followers;
    std::unique_ptr<ChainKeeper> keeper;
    uint64_t shipped = 0;
    size_t answered = 0;
  };
  static constexpr uint32_t kEntryLog = 0, kRecordLog = 1;

  void Step(Server& server);
  void StepOfLeader(Server& server);
  void StepOfFollower(Server& server);
  void StepOfDead(Server& server);
  void Lead(Server& server, LedChain led);
  void Ship(Server& leader);
  void Answer(Server& leader);
  void TakeIn(Server& leader);
  void Drop(Server& leader);
  void Begin(Server& follower, Server& leader);
  void TakeRecord(Server& follower);
  void TakeEntries(Server& follower);
  void Leave(Server& server);
  void Heal();

  Chance chance_;
  const ChainSabotage sabotage_;
  std::shared_ptr<StoreRegister> held_ = std::make_shared<StoreRegister>();
  bool healed_ = false;
  std::vector<Server> servers_;
  std::vector<int> acknowledged_;
  int next_entry_ = 1;
  int takeovers_ = 0;
  std::string wrong_;
};

}  // namespace psgd::sim
