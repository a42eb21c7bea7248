#include "experiment/report/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Two configurations with three seeds. The first has the same bytes and staleness each time.
ReportTable TwoRows() {
  ReportRuns report;
  report.runs.resize(6);
  for (ReportRun& run : report.runs) run.status = ReportStatus::kFinished;
  std::vector<ReportGroup> groups(2);
  for (size_t i = 0; i < groups.size(); ++i) {
    ReportGroup& group = groups[i];
    const double varies = static_cast<double>(i);
    group.label = i == 0 ? "dense" : "topk, staleness 4";
    group.twin = i == 0;
    group.runs = {3 * i, 3 * i + 1, 3 * i + 2};
    if (!group.twin) report.runs[3].data.summary.emplace().codec_carries = "0 of 2 tensors";
    group.score = Statistic::Of({0.90, 0.91, 0.92});
    if (!group.twin) group.against_twin = Statistic::Of({-0.01, 0, 0.01});
    group.loss = Statistic::Of({0.3, 0.31, 0.32});
    group.bytes_pushed = Statistic::Of({1e9, 1e9 + 2e7 * varies, 1e9 + 4e7 * varies});
    group.bytes_pulled = Statistic::Of({1e9, 1e9 + 100, 1e9 + 200});  // looks the same
    group.push_ratio = group.pull_ratio = Statistic::Of({1, 1, 1});
    group.staleness = Statistic::Of({varies, 1.1 * varies, 1.2 * varies});
    group.staleness_max = 4 * varies;
    group.samples_per_second = Statistic::Of({5000, 5100, 5200});
    group.seconds = Statistic::Of({100, 104, 108});
  }
  return TableOf(report, groups);
}

TEST(ReportTable, SpreadsStandBesideMeansWhereTheyShow) {
  const std::string text = TableMarkdown(TwoRows());
  EXPECT_THAT(
      text,
      HasSubstr("| dense (twin) | 3 finished | 91.00 % ±1.00 | - | 0.3100 ±0.0100 | "
                "1.00 GB (1.0x) | 1.00 GB (1.0x) | 0.00, max 0 | 5.10 k ±100 | 1:44 ±4.0 s |"));
  EXPECT_THAT(
      text,
      HasSubstr("| topk, staleness 4 | 3 finished | 91.00 % ±1.00 | +0.00 ±1.00 | 0.3100 ±0.0100 | "
                "1.02 GB ±20.0 MB (1.0x, carried 0 of 2 tensors) | 1.00 GB (1.0x) | 1.10 ±0.10, "
                "max 4 | 5.10 k ±100 | 1:44 ±4.0 s |"));
}

TEST(ReportTable, ANarrowTerminalHasThoseOfAccuraciesAlone) {
  EXPECT_THAT(TableText(TwoRows(), SIZE_MAX), HasSubstr("1.02 GB +-20.0 MB (1.0x, carried"));
  EXPECT_THAT(TableText(TwoRows(), 120),
              testing::AllOf(HasSubstr("91.00 % +-1.00"), HasSubstr("1.02 GB (1.0x, carried"),
                             HasSubstr("1.10, max 4"), Not(HasSubstr("+-20.0 MB"))));
}

TEST(ReportTable, ItsFileHasAColumnForEachSpread) {
  const std::string csv = TableCsv(TwoRows());
  EXPECT_THAT(
      csv,
      StartsWith("configuration,status,accuracy,accuracy spread,against twin,against twin spread,"
                 "loss,loss spread,pushed,pushed spread,pulled,pulled spread,staleness,"
                 "staleness spread,samples/s,samples/s spread,time,time spread\n"));
  EXPECT_THAT(csv, HasSubstr("\ndense (twin),3 finished,0.91,0.01,,,0.31,0.01,1e+09,0,"));
  EXPECT_THAT(
      csv,
      HasSubstr("\n\"topk, staleness 4\",3 finished,0.91,0.01,0,0.01,0.31,0.01,1.02e+09,20000000,"
                "1.0000001e+09,100,1.1,0.1,5100,100,104,4\n"));
}

TEST(ReportTable, SaysWhichConfigurationsHaveOneEvaluation) {
  ReportRuns report;
  report.runs.resize(2);
  report.runs[0].data.curve.resize(1);
  report.runs[1].data.curve.resize(2);
  std::vector<ReportGroup> groups(2);
  groups[0].runs = {0};
  groups[1].runs = {0, 1};
  EXPECT_EQ(EvaluationsMarkdown(report, groups), "\n1 configuration has one evaluation.\n");
  groups[0].runs = {1};
  EXPECT_EQ(EvaluationsMarkdown(report, groups), "");
}

TEST(ReportTable, OneSeedHasNoSpread) {
  ReportRuns report;
  report.runs.resize(1);
  std::vector<ReportGroup> groups(1);
  groups[0].label = "one";
  groups[0].runs = {0};
  groups[0].score = Statistic::Of({0.9});
  groups[0].seconds = Statistic::Of({100});
  EXPECT_THAT(TableMarkdown(TableOf(report, groups)),
              HasSubstr("| one | waiting | 90.00 % | - | - | - | - | - | - | 1:40 |"));
  EXPECT_THAT(TableCsv(TableOf(report, groups)),
              StartsWith("configuration,status,accuracy,against twin,loss,"));
}

}  // namespace
}  // namespace psgd
