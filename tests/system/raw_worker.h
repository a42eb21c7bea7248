// A worker under a test's control: it joins a run correctly, and then sends what the test wants.
#pragma once

#include <memory>
#include <string>

#include "net/transport.h"
#include "worker/control_client.h"

namespace psgd {

// The test fails if a correct step goes wrong. Not thread-safe.
class RawWorker {
 public:
  explicit RawWorker(const std::string& server);

  // The model of a run that has one.
  static ModelSpec ModelOf(const std::string& server);
  void Register(const ModelSpec& model, uint64_t batches_per_epoch);
  // Waits until the worker has a segment to run.
  void AwaitSegment();

  // Pushes all slices of a shard, with each element `value`, without waiting. False: the queue is
  // full.
  bool Push(uint32_t shard, float value);
  // Asks for all slices of the shard, under a new number with each call.
  bool Pull(uint32_t shard);
  // Reads the shards' answers since the last call. Waits a little for the first answer.
  void Listen();

  const WorkerKey& key() const { return key_; }
  int shards() const { return placement_.endpoints_size(); }
  uint64_t absorbed(uint32_t shard) const { return shards_[shard].absorbed; }
  uint64_t refused() const { return refused_; }
  // The reasons of all refusals, in order.
  const std::string& refusals() const { return refusals_; }
  ControlClient& control() { return control_; }

 private:
  struct Shard {
    uint64_t seq = 1;
    uint64_t clock = 0;
    uint64_t absorbed = 0;  // number of pushes
  };
  Message Header(uint32_t shard) const;

  ControlClient control_;
  WorkerKey key_;
  Config config_;
  Placement placement_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Endpoint> endpoint_;
  std::vector<Shard> shards_;
  uint64_t request_ = 0;
  uint64_t refused_ = 0;
  std::string refusals_;
};

}  // namespace psgd
