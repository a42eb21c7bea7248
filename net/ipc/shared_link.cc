#include "net/ipc/shared_link.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <mutex>

namespace psgd {
namespace {

constexpr size_t kSlots = 1024;  // fragments that a receiver may have
constexpr size_t kPage = 4096;
constexpr size_t kLine = 64;  // frames begin at a cache line
// A message comes in pieces where the arena has no place for it as a whole: none is smaller.
constexpr size_t kSmallestPiece = 64u << 10;
// Messages below this are not worth a reference into the arena.
constexpr size_t kCopyBelow = 4u << 10;
// The receiver keeps references to this part of an arena and of the slots at most, and copies what
// is more. So a sender finds room again, whatever the receiver keeps.
constexpr size_t kKeptShare = 4;

// What a message may have around its frames; the wire format has the exact limit.
constexpr size_t kMostAround = 1u << 20;

struct Slot {
  uint64_t at;
  uint64_t size;
  uint64_t last;  // not 0: the message ends with this fragment
};

// A message in the arena: the number of frames, their sizes, then each frame.
constexpr size_t AlignedTo(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

size_t TableBytes(size_t frames) { return AlignedTo((1 + frames) * sizeof(uint64_t), kLine); }

// Writes bytes to consecutive pieces.
class PieceWriter {
 public:
  template <typename Pieces>
  PieceWriter(std::byte* arena, const Pieces& pieces) {
    for (const auto& piece : pieces) rooms_.push_back({arena + piece.at, piece.size});
  }
  void Write(ByteSpan bytes) {
    while (!bytes.empty()) {
      std::span<std::byte>& room = rooms_[piece_];
      const size_t size = std::min(room.size(), bytes.size());
      std::memcpy(room.data(), bytes.data(), size);
      Skip(size);
      bytes = bytes.subspan(size);
    }
  }
  void Skip(size_t bytes) {
    while (bytes > 0) {
      std::span<std::byte>& room = rooms_[piece_];
      const size_t size = std::min(room.size(), bytes);
      room = room.subspan(size);
      if (room.empty()) ++piece_;
      bytes -= size;
    }
  }

 private:
  std::vector<std::span<std::byte>> rooms_;
  size_t piece_ = 0;
};

// The frames of a whole message.
absl::StatusOr<std::vector<Bytes>> FramesOf(const Bytes& message) {
  const auto wrong = [] {
    return absl::InvalidArgumentError("the frames of a message do not fit its size");
  };
  if (message.size() < sizeof(uint64_t)) return wrong();
  const auto count = LoadField<uint64_t>(message.data());
  if (count > message.size() / sizeof(uint64_t) || TableBytes(count) > message.size())
    return wrong();
  std::vector<Bytes> frames;
  size_t at = TableBytes(count);
  for (size_t i = 0; i < count; ++i) {
    const auto size = LoadField<uint64_t>(message.data() + (1 + i) * sizeof(uint64_t));
    if (size > message.size() - at) return wrong();
    frames.push_back(message.Sub(at, size));
    at = std::min(message.size(), at + AlignedTo(size, kLine));
  }
  return frames;
}

}  // namespace

// One direction. The sender writes `published` and the slots, the receiver `returned` and the
// places.
struct SharedLink::Direction {
  alignas(kLine) std::atomic<uint64_t> published;
  alignas(kLine) std::atomic<uint64_t> returned;
  alignas(kLine) Slot slots[kSlots];
  uint64_t places[kSlots];
};

namespace {
static_assert(std::atomic<uint64_t>::is_always_lock_free);
}  // namespace

// The receiving half. The bytes that it gave out keep it.
class SharedLink::Incoming : public std::enable_shared_from_this<SharedLink::Incoming> {
 public:
  Incoming(std::shared_ptr<const SharedMemory> memory, Direction* direction, const std::byte* arena,
           size_t arena_bytes)
      : memory_(std::move(memory)),
        direction_(*direction),
        arena_(arena),
        arena_bytes_(arena_bytes) {}

  bool Any() const { return direction_.published.load(std::memory_order_acquire) != taken_; }

  // REQUIRES: Any(). INVALID_ARGUMENT: the peer broke the rules.
  absl::StatusOr<Slot> Next() {
    const Slot slot = direction_.slots[taken_ % kSlots];  // a copy, which the peer cannot change
    const bool sound = direction_.published.load(std::memory_order_acquire) - taken_ <= kSlots &&
                       slot.size <= arena_bytes_ && slot.at <= arena_bytes_ - slot.size;
    if (!sound) return absl::InvalidArgumentError("a fragment lies outside the shared memory");
    ++taken_;
    return slot;
  }
  ByteSpan At(const Slot& slot) const { return {arena_ + slot.at, slot.size}; }

  // The fragment: where it lies, if it may stay there.
  Bytes Give(const Slot& slot) {
    {
      std::lock_guard lock(mutex_);
      if (slot.size >= kCopyBelow && kept_ + slot.size <= arena_bytes_ / kKeptShare &&
          kept_slots_ < kSlots / kKeptShare) {
        kept_ += slot.size;
        ++kept_slots_;
        return Bytes(std::shared_ptr<const void>(
                         arena_ + slot.at,
                         [self = shared_from_this(), slot](const void*) { self->Release(slot); }),
                     At(slot));
      }
    }
    Bytes copy = Bytes::CopyOf(At(slot));
    Return(slot.at);
    return copy;
  }
  void Return(uint64_t at) {
    std::lock_guard lock(mutex_);
    GiveBack(at);
  }

 private:
  void Release(const Slot& slot) {
    std::lock_guard lock(mutex_);
    kept_ -= slot.size;
    --kept_slots_;
    GiveBack(slot.at);
  }
  // REQUIRES: mutex_ is held.
  void GiveBack(uint64_t at) {
    direction_.places[returned_ % kSlots] = at;
    direction_.returned.store(++returned_, std::memory_order_release);
  }

  const std::shared_ptr<const SharedMemory> memory_;
  Direction& direction_;
  const std::byte* const arena_;
  const size_t arena_bytes_;
  uint64_t taken_ = 0;
  std::mutex mutex_;  // guards what follows
  uint64_t returned_ = 0;
  size_t kept_ = 0;  // bytes
  size_t kept_slots_ = 0;
};

namespace {

template <typename Direction>
constexpr size_t ArenasAt() {
  return AlignedTo(2 * sizeof(Direction), kPage);
}

}  // namespace

size_t SharedLink::BytesFor(size_t arena_bytes) {
  return ArenasAt<Direction>() + 2 * AlignedTo(arena_bytes, kPage);
}

SharedLink::SharedLink(SharedMemory memory, size_t arena_bytes, Side side)
    : memory_(std::make_shared<const SharedMemory>(std::move(memory))),
      arena_bytes_(AlignedTo(arena_bytes, kPage)),
      out_(reinterpret_cast<Direction*>(memory_->data()) + (side == Side::kConnector ? 0 : 1)),
      out_arena_(memory_->data() + ArenasAt<Direction>() +
                 (side == Side::kConnector ? 0 : arena_bytes_)),
      in_(std::make_shared<Incoming>(
          memory_,
          reinterpret_cast<Direction*>(memory_->data()) + (side == Side::kConnector ? 1 : 0),
          memory_->data() + ArenasAt<Direction>() + (side == Side::kConnector ? arena_bytes_ : 0),
          arena_bytes_)) {
  free_[0] = arena_bytes_;
}

int SharedLink::fd() const { return memory_->fd(); }

bool SharedLink::HasIncoming() const { return sound_ && in_->Any(); }

void SharedLink::Free(Piece piece) {
  auto next = free_.upper_bound(piece.at);
  if (next != free_.end() && piece.at + piece.size == next->first) {
    piece.size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == piece.at) {
      before->second += piece.size;
      return;
    }
  }
  free_[piece.at] = piece.size;
}

void SharedLink::TakeBack() {
  const uint64_t returned = out_->returned.load(std::memory_order_acquire);
  if (returned - taken_back_ > published_ - taken_back_) {
    sound_ = false;  // more than was ever sent
    return;
  }
  for (; taken_back_ != returned; ++taken_back_) {
    const auto used = used_.find(out_->places[taken_back_ % kSlots]);
    if (used == used_.end()) {
      sound_ = false;
      return;
    }
    Free({used->first, used->second});
    used_.erase(used);
  }
}

std::vector<SharedLink::Piece> SharedLink::Take(size_t bytes) {
  std::vector<Piece> pieces;
  size_t left = bytes;
  const auto whole =
      std::ranges::find_if(free_, [bytes](const auto& room) { return room.second >= bytes; });
  if (whole != free_.end()) {
    pieces.push_back({whole->first, bytes});
    left = 0;
  }
  for (auto room = free_.begin(); left > 0 && room != free_.end(); ++room) {
    if (room->second < std::min(left, kSmallestPiece)) continue;
    pieces.push_back({room->first, std::min(left, room->second)});
    left -= pieces.back().size;
  }
  if (left > 0 || used_.size() + pieces.size() > kSlots) return {};
  for (const Piece& piece : pieces) {
    const auto room = free_.find(piece.at);
    const size_t rest = room->second - piece.size;
    free_.erase(room);
    if (rest > 0) free_[piece.at + piece.size] = rest;
    used_[piece.at] = piece.size;
  }
  return pieces;
}

bool SharedLink::MayEverFit(size_t bytes) const {
  return bytes + bytes / 8 + kMostAround <= arena_bytes_ - arena_bytes_ / kKeptShare;
}

bool SharedLink::Send(std::span<const Bytes> frames) {
  size_t bytes = TableBytes(frames.size());
  for (const Bytes& frame : frames) bytes += AlignedTo(frame.size(), kLine);
  TakeBack();
  if (!sound_) return false;
  const std::vector<Piece> pieces = Take(bytes);
  if (pieces.empty()) return false;

  std::vector<uint64_t> table = {frames.size()};
  for (const Bytes& frame : frames) table.push_back(frame.size());
  PieceWriter writer(out_arena_, pieces);
  const ByteSpan head = std::as_bytes(std::span<const uint64_t>(table));
  writer.Write(head);
  writer.Skip(TableBytes(frames.size()) - head.size());
  for (const Bytes& frame : frames) {
    writer.Write(frame.span());
    writer.Skip(AlignedTo(frame.size(), kLine) - frame.size());
  }
  for (const Piece& piece : pieces) {
    const uint64_t last = &piece == &pieces.back() ? 1 : 0;
    out_->slots[published_++ % kSlots] = {piece.at, piece.size, last};
  }
  out_->published.store(published_, std::memory_order_release);
  return true;
}

absl::StatusOr<std::optional<std::vector<Bytes>>> SharedLink::Receive(size_t max_message_bytes) {
  max_message_bytes += max_message_bytes / 8 + kMostAround;
  while (HasIncoming()) {
    const absl::StatusOr<Slot> slot = in_->Next();
    if (!slot.ok()) {
      sound_ = false;
      return slot.status();
    }
    const bool last = slot->last != 0;
    if (last && unfinished_.empty() && !too_large_ && slot->size <= max_message_bytes) {
      PSGD_ASSIGN_OR_RETURN(auto frames, FramesOf(in_->Give(*slot)));
      return frames;
    }
    too_large_ = too_large_ || unfinished_.size() + slot->size > max_message_bytes;
    const ByteSpan fragment = in_->At(*slot);
    if (!too_large_) unfinished_.insert(unfinished_.end(), fragment.begin(), fragment.end());
    in_->Return(slot->at);
    if (!last) continue;
    Bytes whole = Bytes::Adopt(std::exchange(unfinished_, {}));
    if (std::exchange(too_large_, false)) {
      return absl::InvalidArgumentError("a message of too many bytes");
    }
    PSGD_ASSIGN_OR_RETURN(auto frames, FramesOf(whole));
    return frames;
  }
  return std::nullopt;
}

}  // namespace psgd
