#include "train/step_trace.h"

#include <utility>

namespace psgd {

void StepTrace::Begin(uint64_t steps, uint32_t worker) {
  steps_ = steps;
  worker_ = worker;
}

TraceSpan* StepTrace::NewSpan(TraceSpan::Kind kind, uint64_t clock, Time start, Time end) {
  if (steps_ == 0) return nullptr;
  if (!first_) first_ = clock;
  if (clock - *first_ >= steps_) return nullptr;  // also what is before the first
  TraceSpan& span = spans_.emplace_back();
  span.set_kind(kind);
  span.set_worker(worker_);
  span.set_clock(clock);
  span.set_start_ns(start.count());
  span.set_duration_ns((end - start).count());
  return &span;
}

void StepTrace::Add(TraceSpan::Kind kind, uint64_t clock, Time start, Time end) {
  NewSpan(kind, clock, start, end);
}

void StepTrace::AddPush(const DataHeader& push, Time sent, Time acknowledged) {
  TraceSpan* span = NewSpan(TraceSpan::PUSH, push.push().clock(), sent, acknowledged);
  if (span == nullptr) return;
  span->set_shard(push.shard());
  span->set_seq(push.push().seq());
}

void StepTrace::MoveTo(WorkerReport* report) {
  for (TraceSpan& span : spans_) *report->add_spans() = std::move(span);
  spans_.clear();
}

}  // namespace psgd
