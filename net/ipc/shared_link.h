// The memory that two processes share for one connection. For each direction it has an arena of
// message bytes, a ring that names the fragments in it, and a ring that gives their places back.
//
// The sender owns the arena: it finds room for a message, copies it in and publishes it. The
// receiver reads it where it lies, and gives its place back once nobody uses it, in any order. So a
// message is copied once, and the lowest addresses are used again and again.
//
// A killed peer leaves nothing behind: what it did not publish was never there, and the memory has
// no name. The memory cannot shrink, so no peer can make this process fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/bytes.h"
#include "common/status.h"
#include "net/ipc/shared_memory.h"

namespace psgd {

// Belongs to the thread of its endpoint. Any thread may free the bytes that it received.
class SharedLink {
 public:
  enum class Side { kConnector, kListener };

  // The memory that a link with arenas of this size needs.
  static size_t BytesFor(size_t arena_bytes);
  // REQUIRES: the memory has BytesFor(arena_bytes).
  SharedLink(SharedMemory memory, size_t arena_bytes, Side side);

  // Whether a message of so many bytes fits once the peer has read all others.
  bool MayEverFit(size_t bytes) const;
  // Copies a message in and publishes it. False: there is no room now.
  bool Send(std::span<const Bytes> frames);
  // Whether Receive has something to do.
  bool HasIncoming() const;
  // The frames of the next message; nullopt: it is not here, or not whole yet. INVALID_ARGUMENT:
  // the message is beyond the limit, or the peer broke the rules; see sound().
  absl::StatusOr<std::optional<std::vector<Bytes>>> Receive(size_t max_message_bytes);
  // False: the peer broke the rules, so nothing of it can be read any more.
  bool sound() const { return sound_; }
  int fd() const;

 private:
  struct Direction;
  class Incoming;
  struct Piece {
    uint64_t at = 0;
    size_t size = 0;
  };

  // Takes room for so many bytes, in as few pieces as possible; empty: there is none.
  std::vector<Piece> Take(size_t bytes);
  // Makes room of what the receiver gave back.
  void TakeBack();
  void Free(Piece piece);

  const std::shared_ptr<const SharedMemory> memory_;
  const size_t arena_bytes_;
  Direction* const out_;
  std::byte* const out_arena_;
  std::map<uint64_t, size_t> free_;  // of the outgoing arena: place and size
  std::map<uint64_t, size_t> used_;
  uint64_t published_ = 0;
  uint64_t taken_back_ = 0;

  const std::shared_ptr<Incoming> in_;
  std::vector<std::byte> unfinished_;  // fragments of a message that is not whole yet
  bool too_large_ = false;             // it is beyond the limit, so its fragments are dropped
  bool sound_ = true;
};

}  // namespace psgd
