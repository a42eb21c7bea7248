// How the copies on a simulated server hear the leading copies on others: each over a stream of its
// own. A stream that loses a message breaks, and nothing more comes on it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "server/cluster/copy_core.h"
#include "simulate/chance.h"

namespace psgd::sim {

class RunWorld;
class SimServer;

// Not thread-safe.
class SimStreams {
 public:
  // Draws from the chance of the server.
  SimStreams(RunWorld* world, SimServer* server, Chance* chance)
      : world_(world), server_(server), chance_(chance) {}

  // The copy here hears the one on that server from now on; 0: it leads itself.
  void Follow(uint32_t shard, uint32_t leader);
  void Drop(uint32_t shard) { follows_.erase(shard); }
  void Clear() { follows_.clear(); }
  // Sends a copy's message. An image goes in up to four parts, between which something may happen.
  // Each carries the whole message; the last one delivers it.
  void Send(CopySend send);
  // A part of an image came, and more follow.
  void ImageBegins(const CopyMessage& message) { follows_[message.shard].begun = message; }
  // The last part came.
  void ImageIsWhole(uint32_t shard) { follows_[shard].begun.reset(); }

 private:
  struct Following {
    uint32_t server = 0;               // 0: it leads itself
    uint64_t stream = 0;               // 0: there is none
    std::optional<CopyMessage> begun;  // an image of which only the first parts have come
  };

  void Lose(uint32_t shard, uint64_t stream);
  void ReachLater(uint32_t shard);
  void Reach(uint32_t shard);

  RunWorld* const world_;
  SimServer* const server_;
  Chance* const chance_;
  std::map<uint32_t, Following> follows_;  // by shard
  uint64_t opened_ = 0;
};

}  // namespace psgd::sim
