// How far ahead pulling workers were, and how long pushes and pulls took, as workers report it.
#pragma once

#include "common/metrics.h"
#include "proto/control.pb.h"

namespace psgd {

// Not thread-safe.
struct ReportHistograms {
  CountHistogram pull_staleness;
  CountHistogram push_latency, pull_latency;  // common/latency.h

  // Bounded in memory, whatever the report says.
  void Add(const WorkerReport& report);

  // Replaces the histograms in a WorkerReport or WorkerStatus.
  template <typename Message>
  void CopyTo(Message* message) const {
    const auto copy = [](const CountHistogram& histogram, auto* counts) {
      counts->Assign(histogram.counts().begin(), histogram.counts().end());
    };
    copy(pull_staleness, message->mutable_pull_staleness());
    copy(push_latency, message->mutable_push_latency());
    copy(pull_latency, message->mutable_pull_latency());
  }
};

}  // namespace psgd
