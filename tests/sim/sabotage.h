// Breaks one promise on purpose, between the network and the shards, to prove that a checker sees
// it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "net/message.h"
#include "server/durability/durable_shard.h"
#include "tests/sim/scenario.h"

namespace psgd::sim {

// Not thread-safe.
class Saboteur {
 public:
  explicit Saboteur(Sabotage kind) : kind_(kind) {}

  // What the shard gets instead of the message.
  std::vector<Message> OnMessage(Message message);
  // What the shard is told instead of the command.
  ShardCommand OnCommand(uint32_t shard, const ShardCommand& command) const;
  // What one shard gives as its part of a checkpoint.
  void OnCut(const ShardCore& core, ShardCut* cut) const;
  // Undoes what the worker must not notice.
  void OnAnswer(Message* message);

 private:
  using Sender = std::pair<uint32_t, std::pair<uint32_t, uint32_t>>;  // shard, worker, incarnation
  static Sender SenderOf(const Message& message);
  void ChangeOther(Message* message) const;
  // Raises versions so that the worker never sees one fall.
  void HideLoss(const Sender& sender, PullReply* reply);
  // Changes the push that was chosen; there may be one more.
  std::vector<Message> ChangeVictim(const Sender& sender, Message message);
  bool IsVictim(const Sender& sender, const Push& push);
  // The push is new to the shard, whose clock has gone on without it.
  bool IsLate(const Sender& sender, const Push& push);

  const Sabotage kind_;
  std::map<Sender, uint64_t> shifted_from_;  // numbers from here on are one higher at the shard
  std::map<Sender, uint64_t> victim_;
  std::map<Sender, uint64_t> acknowledged_;                   // numbers below
  std::map<uint32_t, uint64_t> slowest_;                      // by shard: the slowest clock
  std::map<std::pair<Sender, uint32_t>, uint64_t> versions_;  // by slice: the newest that was sent
};

}  // namespace psgd::sim
