// Counters and small histograms, rendered as Prometheus text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>
#include "absl/strings/string_view.h"

namespace psgd {

// Counts how often each small whole number (such as a staleness) was seen. Not thread-safe.
class CountHistogram {
 public:
  static constexpr size_t kLargest = 1023;  // larger values are counted here; max() stays exact

  // Rebuilds a histogram from the counts() of another process.
  template <typename Counts>
  static CountHistogram FromCounts(const Counts& counts) {
    CountHistogram histogram;
    uint64_t value = 0;
    for (uint64_t times : counts) histogram.Add(value++, times);
    return histogram;
  }

  void Add(uint64_t value, uint64_t times = 1);
  void Merge(const CountHistogram& other);
  uint64_t count() const { return count_; }
  uint64_t max() const { return max_; }
  double Mean() const;
  // Returns the smallest value that at least `share` of the counts do not exceed; 0 when empty.
  uint64_t Quantile(double share) const;
  const std::vector<uint64_t>& counts() const { return counts_; }

 private:
  std::vector<uint64_t> counts_;
  uint64_t count_ = 0;
  uint64_t max_ = 0;
  double sum_ = 0;
};

// One page in the Prometheus text exposition format, built for each scrape. Not thread-safe.
class PrometheusText {
 public:
  // `labels`: for example `shard="0",reason="malformed"`, without braces; may be empty. The samples
  // of a metric follow each other on the page, in the order of the calls.
  void Counter(absl::string_view name, absl::string_view help, absl::string_view labels,
               double value);
  void Gauge(absl::string_view name, absl::string_view help, absl::string_view labels,
             double value);
  void Histogram(absl::string_view name, absl::string_view help, absl::string_view labels,
                 const CountHistogram& histogram, const std::vector<uint64_t>& bounds);
  // `bins` are the bins of common/latency.h; the output is in seconds. The sum is right to half a
  // bin.
  void LatencyHistogram(absl::string_view name, absl::string_view help, absl::string_view labels,
                        const CountHistogram& bins);
  std::string Text() const;

 private:
  struct Metric {
    std::string name;
    std::string text;
  };
  // The text of the metric, with its header.
  std::string* TextOf(absl::string_view name, absl::string_view help, absl::string_view type);

  std::vector<Metric> metrics_;  // in the order of their first samples
};

// Returns a label value with quotes, backslashes and line ends escaped.
std::string PrometheusLabel(absl::string_view value);

}  // namespace psgd
