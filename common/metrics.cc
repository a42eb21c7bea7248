#include "common/metrics.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/latency.h"

namespace psgd {

void CountHistogram::Add(uint64_t value, uint64_t times) {
  if (times == 0) return;
  const size_t bin = std::min<uint64_t>(value, kLargest);
  if (counts_.size() <= bin) counts_.resize(bin + 1);
  counts_[bin] += times;
  count_ += times;
  sum_ += static_cast<double>(value) * static_cast<double>(times);
  max_ = std::max(max_, value);
}

void CountHistogram::Merge(const CountHistogram& other) {
  if (counts_.size() < other.counts_.size()) counts_.resize(other.counts_.size());
  for (size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

double CountHistogram::Mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

uint64_t CountHistogram::Quantile(double share) const {
  const auto wanted = static_cast<uint64_t>(std::ceil(share * static_cast<double>(count_)));
  uint64_t seen = 0;
  for (size_t value = 0; value < counts_.size(); ++value) {
    seen += counts_[value];
    if (seen >= wanted && seen > 0) return value;
  }
  return 0;
}

void PrometheusText::Header(absl::string_view name, absl::string_view help,
                            absl::string_view type) {
  if (last_ == name) return;
  last_ = std::string(name);
  absl::StrAppend(&text_, "# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}

void PrometheusText::Sample(absl::string_view name, absl::string_view labels, double value) {
  absl::StrAppend(&text_, name);
  if (!labels.empty()) absl::StrAppend(&text_, "{", labels, "}");
  absl::StrAppend(&text_, " ", absl::StrFormat("%.17g", value), "\n");
}

void PrometheusText::Counter(absl::string_view name, absl::string_view help,
                             absl::string_view labels, double value) {
  Header(name, help, "counter");
  Sample(name, labels, value);
}

void PrometheusText::Gauge(absl::string_view name, absl::string_view help, absl::string_view labels,
                           double value) {
  Header(name, help, "gauge");
  Sample(name, labels, value);
}

void PrometheusText::Histogram(absl::string_view name, absl::string_view help,
                               absl::string_view labels, const CountHistogram& histogram,
                               const std::vector<uint64_t>& bounds) {
  Header(name, help, "histogram");
  const std::string bucket = absl::StrCat(name, "_bucket");
  const std::string separator = labels.empty() ? "" : ",";
  uint64_t below = 0;
  size_t value = 0;
  const auto& counts = histogram.counts();
  for (uint64_t bound : bounds) {
    for (; value < counts.size() && value <= bound; ++value) below += counts[value];
    Sample(bucket, absl::StrCat(labels, separator, "le=\"", bound, "\""),
           static_cast<double>(below));
  }
  const auto count = static_cast<double>(histogram.count());
  Sample(bucket, absl::StrCat(labels, separator, "le=\"+Inf\""), count);
  Sample(absl::StrCat(name, "_sum"), labels, histogram.Mean() * count);
  Sample(absl::StrCat(name, "_count"), labels, count);
}

void PrometheusText::LatencyHistogram(absl::string_view name, absl::string_view help,
                                      absl::string_view labels, const CountHistogram& bins) {
  Header(name, help, "histogram");
  const std::string bucket = absl::StrCat(name, "_bucket");
  const std::string separator = labels.empty() ? "" : ",";
  const auto& counts = bins.counts();
  uint64_t below = 0;
  double sum = 0;
  for (size_t bin = 0; bin + 1 < kLatencyBins; ++bin) {
    if (bin < counts.size()) {
      below += counts[bin];
      sum += static_cast<double>(counts[bin]) * LatencyBound(bin) * 0.85;  // the middle of a bin
    }
    // One bucket for each octave is enough for a scrape.
    if (bin % 2 != 0) continue;
    Sample(
        bucket,
        absl::StrCat(labels, separator, "le=\"", absl::StrFormat("%.6g", LatencyBound(bin)), "\""),
        static_cast<double>(below));
  }
  const auto count = static_cast<double>(bins.count());
  Sample(bucket, absl::StrCat(labels, separator, "le=\"+Inf\""), count);
  Sample(absl::StrCat(name, "_sum"), labels, sum);
  Sample(absl::StrCat(name, "_count"), labels, count);
}

std::string PrometheusLabel(absl::string_view value) {
  return absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}});
}

}  // namespace psgd
