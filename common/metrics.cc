#include "common/metrics.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/latency.h"

namespace psgd {
namespace {

void AddSample(absl::string_view name, absl::string_view labels, double value, std::string* text) {
  absl::StrAppend(text, name);
  if (!labels.empty()) absl::StrAppend(text, "{", labels, "}");
  absl::StrAppend(text, " ", absl::StrFormat("%.17g", value), "\n");
}

void AddBucket(absl::string_view name, absl::string_view labels, absl::string_view bound,
               uint64_t below, std::string* text) {
  AddSample(absl::StrCat(name, "_bucket"),
            absl::StrCat(labels, labels.empty() ? "" : ",", "le=\"", bound, "\""),
            static_cast<double>(below), text);
}

void EndHistogram(absl::string_view name, absl::string_view labels, double sum, uint64_t count,
                  std::string* text) {
  AddBucket(name, labels, "+Inf", count, text);
  AddSample(absl::StrCat(name, "_sum"), labels, sum, text);
  AddSample(absl::StrCat(name, "_count"), labels, static_cast<double>(count), text);
}

}  // namespace

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

std::string* PrometheusText::TextOf(absl::string_view name, absl::string_view help,
                                    absl::string_view type) {
  for (Metric& metric : metrics_) {
    if (metric.name == name) return &metric.text;
  }
  Metric& metric = metrics_.emplace_back();
  metric.name = std::string(name);
  absl::StrAppend(&metric.text, "# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  return &metric.text;
}

std::string PrometheusText::Text() const {
  std::string text;
  for (const Metric& metric : metrics_) text += metric.text;
  return text;
}

void PrometheusText::Counter(absl::string_view name, absl::string_view help,
                             absl::string_view labels, double value) {
  AddSample(name, labels, value, TextOf(name, help, "counter"));
}

void PrometheusText::Gauge(absl::string_view name, absl::string_view help, absl::string_view labels,
                           double value) {
  AddSample(name, labels, value, TextOf(name, help, "gauge"));
}

void PrometheusText::Histogram(absl::string_view name, absl::string_view help,
                               absl::string_view labels, const CountHistogram& histogram,
                               const std::vector<uint64_t>& bounds) {
  std::string* const text = TextOf(name, help, "histogram");
  uint64_t below = 0;
  size_t value = 0;
  const auto& counts = histogram.counts();
  for (uint64_t bound : bounds) {
    for (; value < counts.size() && value <= bound; ++value) below += counts[value];
    AddBucket(name, labels, absl::StrCat(bound), below, text);
  }
  EndHistogram(name, labels, histogram.Mean() * static_cast<double>(histogram.count()),
               histogram.count(), text);
}

void PrometheusText::LatencyHistogram(absl::string_view name, absl::string_view help,
                                      absl::string_view labels, const CountHistogram& bins) {
  std::string* const text = TextOf(name, help, "histogram");
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
    AddBucket(name, labels, absl::StrFormat("%.6g", LatencyBound(bin)), below, text);
  }
  EndHistogram(name, labels, sum, bins.count(), text);
}

std::string PrometheusLabel(absl::string_view value) {
  return absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}});
}

}  // namespace psgd
