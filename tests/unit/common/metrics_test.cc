#include "common/metrics.h"

#include <gtest/gtest.h>

#include "common/latency.h"

namespace psgd {
namespace {

TEST(CountHistogram, CountsMeanMaxAndQuantiles) {
  CountHistogram histogram;
  EXPECT_EQ(histogram.Quantile(0.5), 0u);
  EXPECT_EQ(histogram.Mean(), 0);
  histogram.Add(0, 90);
  histogram.Add(3, 9);
  histogram.Add(7);
  histogram.Add(9, 0);
  EXPECT_EQ(histogram.count(), 100u);
  EXPECT_EQ(histogram.max(), 7u);
  EXPECT_DOUBLE_EQ(histogram.Mean(), (27.0 + 7) / 100);
  EXPECT_EQ(histogram.Quantile(0.5), 0u);
  EXPECT_EQ(histogram.Quantile(0.9), 0u);
  EXPECT_EQ(histogram.Quantile(0.91), 3u);
  EXPECT_EQ(histogram.Quantile(0.99), 3u);
  EXPECT_EQ(histogram.Quantile(1), 7u);
  EXPECT_EQ(histogram.counts().size(), 8u);
}

TEST(CountHistogram, HugeValuesTakeNoHugeMemory) {
  CountHistogram histogram;
  histogram.Add(UINT64_MAX);
  EXPECT_EQ(histogram.max(), UINT64_MAX);
  EXPECT_EQ(histogram.counts().size(), CountHistogram::kLargest + 1);
  EXPECT_EQ(histogram.Quantile(1), CountHistogram::kLargest);
}

TEST(CountHistogram, MergesAndReadsCounts) {
  CountHistogram one, two;
  one.Add(1, 2);
  two.Add(4);
  one.Merge(two);
  EXPECT_EQ(one.count(), 3u);
  EXPECT_EQ(one.max(), 4u);
  EXPECT_DOUBLE_EQ(one.Mean(), 2);
  const CountHistogram read = CountHistogram::FromCounts(one.counts());
  EXPECT_EQ(read.counts(), one.counts());
  EXPECT_EQ(read.max(), 4u);
}

TEST(PrometheusText, OneHeaderAMetric) {
  PrometheusText text;
  text.Counter("psgd_pushes_total", "Pushes absorbed.", "shard=\"0\"", 3);
  text.Counter("psgd_pushes_total", "Pushes absorbed.", "shard=\"1\"", 1e15);
  text.Gauge("psgd_epoch", "Progress.", "", 0.5);
  EXPECT_EQ(text.Text(),
            "# HELP psgd_pushes_total Pushes absorbed.\n"
            "# TYPE psgd_pushes_total counter\n"
            "psgd_pushes_total{shard=\"0\"} 3\n"
            "psgd_pushes_total{shard=\"1\"} 1000000000000000\n"
            "# HELP psgd_epoch Progress.\n"
            "# TYPE psgd_epoch gauge\n"
            "psgd_epoch 0.5\n");
}

TEST(PrometheusText, HistogramsAreCumulative) {
  CountHistogram histogram;
  histogram.Add(0, 5);
  histogram.Add(2, 3);
  histogram.Add(100, 1);
  PrometheusText text;
  text.Histogram("s", "Staleness.", "", histogram, {0, 1, 2, 4});
  text.Histogram("s", "Staleness.", "shard=\"1\"", histogram, {2});
  EXPECT_EQ(text.Text(),
            "# HELP s Staleness.\n"
            "# TYPE s histogram\n"
            "s_bucket{le=\"0\"} 5\n"
            "s_bucket{le=\"1\"} 5\n"
            "s_bucket{le=\"2\"} 8\n"
            "s_bucket{le=\"4\"} 8\n"
            "s_bucket{le=\"+Inf\"} 9\n"
            "s_sum 106\n"
            "s_count 9\n"
            "s_bucket{shard=\"1\",le=\"2\"} 8\n"
            "s_bucket{shard=\"1\",le=\"+Inf\"} 9\n"
            "s_sum{shard=\"1\"} 106\n"
            "s_count{shard=\"1\"} 9\n");
}

TEST(PrometheusText, LabelsAreEscaped) {
  EXPECT_EQ(PrometheusLabel("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
}

TEST(Latency, BinsAreHalfOctaves) {
  EXPECT_EQ(LatencyBin(Duration(0)), 0u);
  EXPECT_EQ(LatencyBin(std::chrono::microseconds(1)), 0u);
  EXPECT_EQ(LatencyBin(std::chrono::microseconds(2)), 2u);
  EXPECT_EQ(LatencyBin(std::chrono::hours(5)), kLatencyBins - 1);
  for (int microseconds : {3, 70, 1000, 123456}) {
    const size_t bin = LatencyBin(std::chrono::microseconds(microseconds));
    EXPECT_LE(microseconds * 1e-6, LatencyBound(bin));
    EXPECT_GT(microseconds * 1e-6, LatencyBound(bin - 1));
  }
  CountHistogram bins;
  EXPECT_EQ(LatencyQuantile(bins, 0.5), 0);
  bins.Add(LatencyBin(std::chrono::milliseconds(1)), 99);
  bins.Add(LatencyBin(std::chrono::seconds(1)), 1);
  EXPECT_NEAR(LatencyQuantile(bins, 0.5), 1e-3, 0.5e-3);
  EXPECT_NEAR(LatencyQuantile(bins, 1), 1, 0.5);
}

TEST(PrometheusText, Latencies) {
  CountHistogram bins;
  bins.Add(LatencyBin(std::chrono::microseconds(2)), 3);
  bins.Add(kLatencyBins - 1);
  PrometheusText text;
  text.LatencyHistogram("psgd_push_seconds", "Pushes.", "worker=\"0\"", bins);
  const std::string page = text.Text();
  EXPECT_NE(page.find("psgd_push_seconds_bucket{worker=\"0\",le=\"1e-06\"} 0\n"), std::string::npos)
      << page;
  EXPECT_NE(page.find("psgd_push_seconds_bucket{worker=\"0\",le=\"2e-06\"} 3\n"), std::string::npos)
      << page;
  EXPECT_NE(page.find("psgd_push_seconds_bucket{worker=\"0\",le=\"+Inf\"} 4\n"), std::string::npos)
      << page;
  EXPECT_NE(page.find("psgd_push_seconds_count{worker=\"0\"} 4\n"), std::string::npos) << page;
}

}  // namespace
}  // namespace psgd
