#include "net/grpc/grpc_stream.h"

#include <utility>

namespace psgd {
namespace {

grpc::ByteBuffer Farewell() {
  const grpc::Slice nothing;
  return {&nothing, 1};
}

}  // namespace

GrpcStream::Due GrpcStream::Next() {
  Due due;
  if (!ended_) {
    const bool room = shared_->closing || shared_->inbox_bytes < shared_->options.queue_bytes;
    if (!reading_ && room) {
      turn_ = 0;
      due.read = reading_ = true;
    } else if (!reading_) {
      // A resumed stream comes here again if other streams took the room first.
      if (turn_ == 0) turn_ = ++shared_->last_turn;
      shared_->paused.emplace(turn_, shared_from_this());
    }
    const bool ending = shared_->closing || farewell_;
    if (!writing_ && !farewell_ && !outbox_->messages.empty()) {
      write_.Swap(&outbox_->messages.front());
      outbox_->messages.pop_front();
      outbox_->bytes -= write_.Length();
      due.write = writing_ = true;
    }
    if (ending && !writing_ && !flushed_) {
      flushed_ = writing_ = true;
      if (IsAccepted()) write_ = Farewell();
      (IsAccepted() ? due.write : due.writes_done) = true;
    }
  } else if (!reading_ && !writing_ && !released_) {
    due.release = released_ = true;
  }
  return due;
}

void GrpcStream::Start(const Due& due) {
  if (due.write) StartWriting(&write_);
  if (due.writes_done) StartWritesDone();
  if (due.release) {
    Release();
  } else if (due.read) {
    StartReading(&read_);
  }
}

void GrpcStream::Proceed(std::unique_lock<std::mutex> lock) {
  const Due due = Next();
  lock.unlock();
  Start(due);
}

void GrpcStream::Continue() { Proceed(std::unique_lock(shared_->mutex)); }

bool GrpcStream::HasRoom(size_t bytes) const {
  std::lock_guard lock(shared_->mutex);
  const TransportOptions& options = shared_->options;
  return static_cast<int>(outbox_->messages.size()) < options.send_queue_messages &&
         (outbox_->bytes == 0 || outbox_->bytes + bytes <= options.send_queue_bytes);
}

void GrpcStream::Send(grpc::ByteBuffer message) {
  std::unique_lock lock(shared_->mutex);
  outbox_->bytes += message.Length();
  outbox_->messages.emplace_back().Swap(&message);
  Proceed(std::move(lock));
}

void GrpcStream::ReadDone(bool ok) {
  std::unique_lock lock(shared_->mutex);
  reading_ = false;
  ended_ = ended_ || !ok;
  if (ok && read_.Length() == 0 && !IsAccepted()) {
    farewell_ = true;
  } else if (ok && !shared_->closing) {
    shared_->inbox_bytes += GrpcShared::SizeOf(read_);
    shared_->inbox.push_back({.from = peer_, .bytes = {}, .pass = pass_});
    shared_->inbox.back().bytes.Swap(&read_);
    shared_->changed.notify_one();
  }
  read_.Clear();
  Proceed(std::move(lock));
}

void GrpcStream::WriteDone(bool ok) {
  std::unique_lock lock(shared_->mutex);
  grpc::ByteBuffer sent;  // released after the mutex: destructors of owners may do work
  sent.Swap(&write_);
  writing_ = false;
  ended_ = ended_ || !ok;
  Proceed(std::move(lock));
}

void GrpcStream::Cancelled() {
  std::unique_lock lock(shared_->mutex);
  ended_ = true;
  Proceed(std::move(lock));
}

void GrpcStream::Done() {
  std::shared_ptr<GrpcShared>
      shared;  // outlives the lock: after the unlock the owner may destroy this stream
  std::lock_guard lock(shared_->mutex);
  shared = shared_;
  ended_ = true;
  auto it = shared->live.find(peer_);
  shared->ended.push_back(std::move(it->second));
  shared->live.erase(it);
  shared->changed.notify_all();
}

}  // namespace psgd
