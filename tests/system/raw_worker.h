// A worker that says what a test wants it to say: it joins a run by the book, and then has its own
// mind.
#pragma once

#include <memory>
#include <string>

#include "net/transport.h"
#include "worker/control_client.h"

namespace psgd {

// Whatever goes wrong by the book is a test failure. Not thread-safe.
class RawWorker {
 public:
  explicit RawWorker(const std::string& server);

  // Of a run that has a model already.
  static ModelSpec ModelOf(const std::string& server);
  void Register(const ModelSpec& model, uint64_t batches_per_epoch);
  // Until it has a segment to run.
  void AwaitSegment();

  // Of all slices of a shard, each element this value, without waiting for anything. False: the
  // queue is full.
  bool Push(uint32_t shard, float value);
  // Asks for all slices of the shard, again and again under new numbers.
  bool Pull(uint32_t shard);
  // To what the shards said since; waits a little for the first of it.
  void Listen();

  const WorkerKey& key() const { return key_; }
  int shards() const { return placement_.endpoints_size(); }
  uint64_t absorbed(uint32_t shard) const { return shards_[shard].absorbed; }
  uint64_t refused() const { return refused_; }
  // What servers refused it for, one after the other.
  const std::string& refusals() const { return refusals_; }
  ControlClient& control() { return control_; }

 private:
  struct Shard {
    uint64_t seq = 1;
    uint64_t clock = 0;
    uint64_t absorbed = 0;  // pushes
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
