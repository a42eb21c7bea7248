#include "server/control/shard_trace.h"

#include <utility>

namespace psgd {

void ShardTrace::Begin(const DataHeader& header) {
  if (!header.has_push()) return;
  if (!first_) first_ = header.push().clock();
  if (header.push().clock() >= *first_ + steps_) return;
  open_.emplace();
  open_->set_kind(TraceSpan::APPLY);
  open_->set_worker(header.worker());
  open_->set_shard(shard_);
  open_->set_seq(header.push().seq());
  open_->set_clock(header.push().clock());
  open_->set_start_ns(SteadyNow().count());
}

void ShardTrace::End() {
  if (!open_) return;
  open_->set_duration_ns(SteadyNow().count() - open_->start_ns());
  applied_.push_back(*std::exchange(open_, std::nullopt));
}

std::vector<TraceSpan> ShardTrace::Committed() {
  std::vector<TraceSpan> spans = std::exchange(applied_, {});
  const int64_t now = SteadyNow().count();
  const size_t applied = spans.size();
  for (size_t i = 0; i < applied; ++i) {
    TraceSpan commit = spans[i];
    commit.set_kind(TraceSpan::COMMIT);
    commit.set_start_ns(spans[i].start_ns() + spans[i].duration_ns());
    commit.set_duration_ns(now - commit.start_ns());
    spans.push_back(std::move(commit));
  }
  return spans;
}

}  // namespace psgd
