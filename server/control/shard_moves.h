// Which server holds which shard of a run, and the steps in which one goes from one to another:
// docs/architecture.md, "Several servers". A state machine without IO, threads or time: what became
// of a step in, the next step out. parameter_server_hosts carries them out; tests/sim has servers
// die and connections break between any two of them.
//
//   give         the old server: the shard gives its image, goes on, and keeps its steps from then
//   on take         the new one makes it from that, standing still follow       it goes the old
//   one's steps since, time after time, until few are left; then the old one stands
//                still, and gives the last
//   write down   who holds it
//   go on        the new one
//   drop         the old one
//
// What fails before it is written down is undone: the old one goes on, the new one drops. So does a
// move whose servers were away in between, even if they are back: one that comes back is told to go
// on with what it holds, and from then on what it gave before is old.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "common/status.h"

namespace psgd {

// Not thread-safe.
class ShardMoves {
 public:
  static constexpr uint32_t kCoordinator = 1;  // its own number as a server

  enum class Do { kGive, kTake, kFollow, kWriteDown, kGoOn, kDrop };
  struct Step {
    Do what = Do::kGive;
    uint32_t shard = 0;
    uint32_t server = 0;  // who is to do it; kWriteDown: who is written down
    bool last = false;    // kFollow: the old one is to stand still
  };
  // What came of kFollow.
  struct Followed {
    size_t bytes = 0;
    bool stands_still = false;
  };
  // A move that has ended, well or not.
  struct Ended {
    uint32_t shard = 0, from = 0, to = 0;
    absl::Status status;
  };
  struct CameBack {
    std::vector<uint32_t> lost;   // it held these and does not have them
    std::vector<uint32_t> go_on;  // of what it has
    std::vector<uint32_t> drop;
  };

  explicit ShardMoves(std::vector<uint32_t> owners)
      : owners_(std::move(owners)), target_(owners_) {}

  // By shard: who holds it, as it is to be written down.
  const std::vector<uint32_t>& owners() const { return owners_; }
  const std::vector<uint32_t>& target() const { return target_; }
  bool under_way() const { return move_.has_value(); }
  bool settled() const { return !under_way() && owners_ == target_; }

  // Shards are to be spread evenly over these. REQUIRES: as SpreadShards.
  void Spread(std::span<const uint32_t> servers);
  void SetTarget(std::vector<uint32_t> target) { target_ = std::move(target); }

  // What is to be done next. `begin`: another move may begin. Of kWriteDown: owners() says so
  // already, and nobody may write down, nor tell a worker, anything else before Done. REQUIRES:
  // Done was called for the one before.
  std::optional<Step> Next(bool begin);
  // What became of it. UNAVAILABLE: it is worth trying again.
  std::optional<Ended> Done(const absl::Status& status, const Followed& followed = {0, true});

  // The connection to that server broke.
  void Away(uint32_t server);
  // It is there again, with these.
  CameBack Back(uint32_t server, const std::set<uint32_t>& has);

 private:
  struct Move {
    uint32_t shard = 0, from = 0, to = 0;
    Do next = Do::kGive;
    absl::Status failed;
    bool last = false;        // the old one is to stand still
    int rounds = 0;           // of steps that were followed
    size_t bytes = SIZE_MAX;  // in the latest
  };
  void Fail(const absl::Status& why);
  void Follow(const Followed& followed);

  std::vector<uint32_t> owners_, target_;
  std::optional<Move> move_;
  bool broken_ = false;  // a server of it was away
};

}  // namespace psgd
