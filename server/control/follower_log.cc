#include "server/control/follower_log.h"

#include <algorithm>
#include <thread>

namespace psgd {
namespace {
// As long as acknowledgements do not wait for a follower, nothing else holds back what waits for
// it.
constexpr uint64_t kMostBehind = 512u << 20;
}  // namespace

void FollowerLog::Add(std::shared_ptr<const LogPart> part, uint64_t last) {
  std::lock_guard lock(mutex_);
  if (closed_ || last <= added_) return;  // what it began with holds those
  added_ = last;
  if (unwritten_.empty()) moved_ = SteadyNow();
  unwritten_.emplace_back(last, part->ByteSizeLong());
  bytes_ += unwritten_.back().second;
  parts_.push_back(std::move(part));
  closed_ = bytes_ > kMostBehind;
  changed_.notify_all();
}

std::shared_ptr<const LogPart> FollowerLog::Next(Duration timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [&] { return closed_ || !parts_.empty(); });
  if (closed_ || parts_.empty()) return nullptr;
  auto part = std::move(parts_.front());
  parts_.pop_front();
  return part;
}

void FollowerLog::Written(uint64_t number) {
  std::lock_guard lock(mutex_);
  written_ = number;
  moved_ = SteadyNow();
  while (!unwritten_.empty() && unwritten_.front().first <= number) {
    bytes_ -= unwritten_.front().second;
    unwritten_.pop_front();
  }
  changed_.notify_all();
}

bool FollowerLog::WaitWritten(uint64_t number, Duration timeout) {
  std::unique_lock lock(mutex_);
  const auto done = [&] { return written_.has_value() && *written_ >= number; };
  changed_.wait_for(lock, timeout, [&] { return closed_ || done(); });
  return !closed_ && done();
}

uint64_t FollowerLog::added() const {
  std::lock_guard lock(mutex_);
  return added_;
}

Duration FollowerLog::Stuck(Time now) const {
  std::lock_guard lock(mutex_);
  return unwritten_.empty() ? Duration(0) : std::max<Duration>(now - moved_, Duration(0));
}

bool FollowerLog::caught_up() const {
  std::lock_guard lock(mutex_);
  return !closed_ && written_.has_value() && *written_ >= added_;
}

uint64_t FollowerLog::bytes_behind() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

uint64_t FollowerLog::entries_behind() const {
  std::lock_guard lock(mutex_);
  const uint64_t written = written_.value_or(start_);
  return added_ > written ? added_ - written : 0;
}

void FollowerLog::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

bool FollowerLog::closed() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

void SendLog(FollowerLog& log, FollowerStream& stream, Duration alive) {
  std::thread reader([&] {
    FollowerSays says;
    while (stream.Receive(&says)) log.Written(says.written());
    log.Close();
  });
  LogPart nothing;
  nothing.mutable_alive();
  while (!log.closed() && !stream.gone()) {
    const auto part = log.Next(alive);
    if (!stream.Send(part == nullptr ? nothing : *part)) break;
  }
  stream.End();
  reader.join();
}

}  // namespace psgd
