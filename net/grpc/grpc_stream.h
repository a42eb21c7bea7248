// One stream of messages over gRPC, whichever side opened it.
//
// gRPC calls back on its own threads; the endpoint's owner sends and takes. Both change the state
// under the endpoint's mutex, where Next decides which operations are due; these are started after
// the mutex is released, since gRPC may call back from within. At most one read and one write are
// under way, and a stream ends only when none is: so no operation is started on a dead stream.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "net/transport.h"

namespace psgd {

class GrpcStream;

// What the streams of an endpoint share with it.
struct GrpcShared {
  explicit GrpcShared(const TransportOptions& o) : options(o) {}

  struct Parcel {
    PeerId from;
    grpc::ByteBuffer bytes;
    std::shared_ptr<const std::string> pass;
  };

  const TransportOptions options;
  std::mutex mutex;  // guards everything below, and the state of all streams
  std::condition_variable changed;
  std::deque<Parcel> inbox;
  size_t inbox_bytes = 0;
  // Not reading until the inbox has room, by the turn that each has kept since it last read: the
  // fast ones must not always be first.
  std::map<uint64_t, std::shared_ptr<GrpcStream>> paused;
  uint64_t last_turn = 0;
  std::map<PeerId, std::shared_ptr<GrpcStream>> live;
  // For the owner to destroy: a stream holds its channel, and gRPC's threads, on which streams end,
  // cannot destroy a channel, since that may wait for them.
  std::vector<std::shared_ptr<GrpcStream>> ended;
  uint64_t strangers = 0;    // calls of those who may not
  uint64_t crowded_out = 0;  // and of those who would have been one too many
  bool woken = false;
  bool closing = false;  // what comes in is discarded; what is queued is still sent
};

// Messages for one peer; those of a connecting endpoint outlive a broken stream.
using GrpcOutbox = std::deque<grpc::ByteBuffer>;

class GrpcStream : public std::enable_shared_from_this<GrpcStream> {
 public:
  // `pass`: what the other side of a secured listener's stream proved to have.
  GrpcStream(std::shared_ptr<GrpcShared> shared, PeerId peer, std::shared_ptr<GrpcOutbox> outbox,
             std::string pass = "")
      : shared_(std::move(shared)),
        peer_(peer),
        outbox_(std::move(outbox)),
        pass_(std::make_shared<const std::string>(std::move(pass))) {}
  virtual ~GrpcStream() = default;

  // Starts whatever is due: after the outbox or the inbox changed. Thread-safe.
  void Continue();
  // Queues a message; false when `send_queue_messages` are. Thread-safe.
  bool Send(grpc::ByteBuffer message);
  // The transport below is gone, or gave up. REQUIRES: shared->mutex is held.
  bool ended() const { return ended_; }

 protected:
  // For the reactors: what gRPC reported.
  void ReadDone(bool ok);
  void WriteDone(bool ok);
  void Cancelled();
  void Done();

  virtual void StartReading(grpc::ByteBuffer* into) = 0;
  virtual void StartWriting(const grpc::ByteBuffer* message) = 0;
  // Whether having written everything is enough to end the stream; else StartWritesDone tells the
  // other side, which then ends it. Completed by WriteDone.
  virtual bool EndsWhenFlushed() const = 0;
  virtual void StartWritesDone() {}
  // No operation of ours is under way and none will be.
  virtual void Release() = 0;

 private:
  struct Due {
    bool read = false;
    bool write = false;
    bool writes_done = false;
    bool release = false;
  };
  Due Next();  // REQUIRES: shared_->mutex is held
  void Start(const Due& due);

  const std::shared_ptr<GrpcShared> shared_;
  const PeerId peer_;
  const std::shared_ptr<GrpcOutbox> outbox_;
  const std::shared_ptr<const std::string> pass_;
  // Guarded by shared_->mutex, but for the buffers while an operation on them is under way.
  bool reading_ = false;
  bool writing_ = false;
  uint64_t turn_ = 0;  // of one that waits for room; 0: it does not
  bool flushed_ = false;
  bool ended_ = false;
  bool released_ = false;
  grpc::ByteBuffer read_;
  grpc::ByteBuffer write_;
};

}  // namespace psgd
