// One stream of messages over gRPC, whichever side opened it.
//
// gRPC calls back on its own threads; the endpoint's owner sends and takes messages. Both change
// the state under the endpoint's mutex, and Next decides there which operations are due. Operations
// start after the mutex is released, since gRPC may call back from within them. At most one read
// and one write are under way. A stream is released only when none is, so no operation starts on a
// dead stream.
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

// The state that an endpoint shares with its streams.
struct GrpcShared {
  explicit GrpcShared(const TransportOptions& o) : options(o) {}

  struct Parcel {
    PeerId from;
    grpc::ByteBuffer bytes;
    std::shared_ptr<const std::string> pass;
  };
  // What a message takes of queue_bytes. Messages without bytes must not fill the memory either.
  static size_t SizeOf(const grpc::ByteBuffer& message) {
    return sizeof(Parcel) + message.Length();
  }

  const TransportOptions options;
  std::mutex mutex;  // guards everything below, and the state of all streams
  std::condition_variable changed;
  std::deque<Parcel> inbox;
  size_t inbox_bytes = 0;
  // Streams that wait for room in the inbox, in order of their turns. A stream keeps its turn until
  // it reads, so that fast streams are not always first.
  std::map<uint64_t, std::shared_ptr<GrpcStream>> paused;
  uint64_t last_turn = 0;
  std::map<PeerId, std::shared_ptr<GrpcStream>> live;
  // Streams that the owner destroys. Streams end on gRPC's threads, and these must not destroy the
  // channel that a stream holds: destroying a channel may wait for these threads.
  std::vector<std::shared_ptr<GrpcStream>> ended;
  uint64_t strangers = 0;    // refused calls of callers without a valid pass
  uint64_t crowded_out = 0;  // refused calls beyond the limit of peers
  bool woken = false;
  bool closing = false;  // incoming messages are discarded; queued messages are still sent
};

// Messages for one peer. A connecting endpoint keeps its outbox when the stream breaks.
struct GrpcOutbox {
  std::deque<grpc::ByteBuffer> messages;
  size_t bytes = 0;
};

class GrpcStream : public std::enable_shared_from_this<GrpcStream> {
 public:
  // `pass`: the pass that the peer of a secured listener proved to have.
  GrpcStream(std::shared_ptr<GrpcShared> shared, PeerId peer, std::shared_ptr<GrpcOutbox> outbox,
             std::string pass = "")
      : shared_(std::move(shared)),
        peer_(peer),
        outbox_(std::move(outbox)),
        pass_(std::make_shared<const std::string>(std::move(pass))) {}
  virtual ~GrpcStream() = default;

  // Starts the operations that are due. Called after the outbox or the inbox changed. Thread-safe.
  void Continue();
  // Whether the queue has room for a message with so many bytes. Thread-safe.
  bool HasRoom(size_t bytes) const;
  // Queues a message. Thread-safe.
  void Send(grpc::ByteBuffer message);
  // Whether the call below has ended or failed. REQUIRES: shared->mutex is held.
  bool ended() const { return ended_; }

 protected:
  // The reactors call these when gRPC reports.
  void ReadDone(bool ok);
  void WriteDone(bool ok);
  void Cancelled();
  void Done();

  virtual void StartReading(grpc::ByteBuffer* into) = 0;
  virtual void StartWriting(const grpc::ByteBuffer* message) = 0;
  // True: the other side opened the stream, and ends it with StartWritesDone, whose completion
  // WriteDone reports. This side asks for that with a message without bytes, the farewell. If this
  // side ended the stream, gRPC would close the connection, and the other side could lose messages
  // that it has not read yet.
  virtual bool IsAccepted() const = 0;
  virtual void StartWritesDone() {}
  // Called when no operation is under way and none will start.
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
  // Releases the mutex and starts the operations that are due.
  void Proceed(std::unique_lock<std::mutex> lock);

  const std::shared_ptr<GrpcShared> shared_;
  const PeerId peer_;
  const std::shared_ptr<GrpcOutbox> outbox_;
  const std::shared_ptr<const std::string> pass_;
  // Guarded by shared_->mutex, except a buffer while an operation uses it.
  bool reading_ = false;
  bool writing_ = false;
  uint64_t turn_ = 0;      // its turn while it waits for room; 0: not waiting
  bool farewell_ = false;  // it came: what is queued waits for another stream
  bool flushed_ = false;   // the farewell, or StartWritesDone, was started
  bool ended_ = false;
  bool released_ = false;
  grpc::ByteBuffer read_;
  grpc::ByteBuffer write_;
};

}  // namespace psgd
