// Whether a run waits for workers, trains, ends or is over, and why it ends. No IO.
#pragma once

#include <string>

#include "proto/control.pb.h"
#include "proto/journal.pb.h"

namespace psgd {

// A run that drains finishes what is dealt. Not thread-safe.
class RunState {
 public:
  // A segment is dealt.
  void Train() { state_ = StatusReply::TRAINING; }
  // People, or a failure, end the run. False: it is over, or ends for such a
  // reason already.
  bool Drain(const DrainRequest& request);
  // Training gets no better. Workers leave as at the run's end.
  void StopEarly(std::string reason);
  // Nothing is left to do.
  void End() { state_ = drain_failed_ ? StatusReply::FAILED : StatusReply::FINISHED; }

  StatusReply::State state() const { return state_; }
  bool waits() const { return state_ == StatusReply::WAITING; }
  bool trains() const { return state_ == StatusReply::TRAINING; }
  bool over() const { return state_ == StatusReply::FINISHED || state_ == StatusReply::FAILED; }
  bool draining() const { return draining_; }
  bool stopped_early() const { return stopped_early_; }
  // People, or a failure, ended the run before its training was done.
  bool asked_to_end() const { return draining_ && !stopped_early_; }
  bool fails() const { return drain_failed_; }
  // Why it drains.
  const std::string& reason() const { return drain_reason_; }

  void Save(CoordinatorRecord* record) const;
  void Restore(const CoordinatorRecord& record);

 private:
  StatusReply::State state_ = StatusReply::WAITING;
  bool draining_ = false;
  bool stopped_early_ = false;  // it drains because of train.early_stop
  bool drain_failed_ = false;
  std::string drain_reason_;
};

}  // namespace psgd
