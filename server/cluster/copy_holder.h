// A server's part in the run, whoever leads it: it holds its assigned copies, and reports their
// state. A state machine without IO.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "common/clock.h"
#include "server/cluster/server_effects.h"

namespace psgd {

// Not thread-safe.
class CopyHolder {
 public:
  // `on_disk`: the shards with copies in its run directory, which belongs to the run `run_id`. The
  // shell stores that id before a copy can come, so that another run never gets the copies.
  // `patience`: how long others wait for a sign of life of this server.
  CopyHolder(RunServer self, std::string run_id, const std::set<uint32_t>& on_disk,
             Duration patience);

  // A new link to the run's leader is there: the leader hears the whole state again.
  void OnConnected(ServerEffects* effects, Time now);
  void OnAssignment(const Assignment& assignment, ServerEffects* effects);
  // A copy reports its state, or was dropped.
  void OnCopy(const CopyState& copy);
  void OnDropped(uint32_t shard, ServerEffects* effects);
  // The leading copy here has cut its part of the checkpoint. False: the checkpoint does not need
  // this part.
  bool OnCut(uint32_t shard, uint64_t checkpoint);
  void Leave() { leaving_ = true; }
  // The run knows this server by that number.
  void SetNumber(uint32_t server) { self_.set_server(server); }
  // Call this at least ten times per `patience`.
  void Tick(Time now, ServerEffects* effects);

  const RunServer& self() const { return self_; }
  const std::string& run_id() const { return run_id_; }
  // The latest epoch of the run whose leader this server has heard; 0: none in this process.
  uint64_t run_epoch() const { return run_epoch_; }
  size_t copies() const { return copies_.size(); }
  // Shard to checkpoint: a copy here has cut this part. The entry goes when the checkpoint is done.
  const std::map<uint32_t, uint64_t>& cuts() const { return cuts_; }

 private:
  ServerState State();

  const Duration patience_;
  RunServer self_;
  const std::string run_id_;
  uint64_t run_epoch_ = 0;
  uint64_t revision_ = 0;
  uint64_t number_ = 0;
  bool leaving_ = false;
  bool changed_ = false;  // since State was sent last
  Time sent_{};
  uint64_t checkpoint_done_ = 0;
  std::map<uint32_t, CopyState> copies_;  // by shard: the actual copies
  std::set<uint32_t> given_;              // shards whose copies this server was told to have
  // Shards whose copies are being dropped, with the copies that are to be there afterwards: a new
  // copy must find no journal of the old one.
  std::map<uint32_t, std::optional<AssignedCopy>> dropping_;
  std::map<uint32_t, uint64_t> cuts_;
};

}  // namespace psgd
