#include "experiment/report/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(Pareto, KeepsWhatNobodyBeats) {
  EXPECT_THAT(ParetoFront({{10, 0.9}, {5, 0.8}, {7, 0.7}, {20, 0.9}, {1, 0.1}}),
              ElementsAre(4, 1, 0));
  EXPECT_THAT(ParetoFront({{1, 0.5}, {1, 0.6}}), ElementsAre(1));
  EXPECT_THAT(ParetoFront({}), IsEmpty());
}

TEST(Scale, HasRoundTicksWithin) {
  const Scale linear({0.5, 3.2}, false, true, 0, 100);
  EXPECT_THAT(linear.Ticks(4), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(linear.At(0), 0);
  EXPECT_LT(linear.At(3.2), 100);
  const Scale decades({1, 10000}, true, false, 0, 100);
  EXPECT_THAT(decades.Ticks(6), ElementsAre(1, 10, 100, 1000, 10000));
  EXPECT_FALSE(decades.Shows(0));
  EXPECT_THAT(Scale({2.0001e6, 2.0011e6}, true, false, 0, 100).Ticks(3),
              testing::SizeIs(testing::Ge(2u)));
  // One number or none must not divide by zero.
  EXPECT_EQ(Scale({5}, false, false, 0, 100).At(5), 50);
  EXPECT_FALSE(Scale({}, true, false, 0, 100).Ticks(5).empty());
}

TEST(Svg, TextIsEscaped) {
  Svg svg(10, 10, "id", "a < b", "\"c\" & d");
  svg.Text(1, 2, Anchor::kStart, "<script>");
  svg.Marker(0, 1, 2, 3, "c0", "x<y");
  EXPECT_THAT(svg.Inline(), Not(HasSubstr("<script>")));
  EXPECT_THAT(svg.Inline(), AllOf(HasSubstr("a &lt; b"), HasSubstr("&quot;c&quot; &amp; d"),
                                  HasSubstr("<title>x&lt;y</title>")));
  EXPECT_THAT(svg.Document(), AllOf(HasSubstr("xmlns="), HasSubstr("<style>")));
}

TEST(FigureCsv, QuotesWhatNeedsIt) {
  const Figure figure{"id", "t", "c", Svg(1, 1, "i", "t", "d"), {{"a", "b"}, {"x, \"y\"", "1"}}};
  EXPECT_EQ(FigureCsv(figure), "a,b\n\"x, \"\"y\"\"\",1\n");
}

// With more runs than a figure shows, twins are still drawn, the data has all runs, and the caption
// names what is left out.
TEST(Figures, WhatIsLeftOutIsSaid) {
  ReportRuns report;
  for (int i = 0; i <= 410; ++i) {
    ReportRun run;
    run.twin = i == 410;  // the last run, after more runs than are drawn
    run.label = run.twin ? "dense" : absl::StrCat("run ", i);
    run.status = ReportStatus::kFinished;
    run.score = ScoreOf(0.5, {});
    run.data.curve = {{1, 1, ScoreOf(0.4, {})}, {2, 2, ScoreOf(0.5, {})}};
    run.data.progress = Record{{"kind", "progress"}, {"seconds_compute", 3}, {"seconds_wait", 1}};
    report.runs.push_back(run);
  }
  std::map<std::string, Figure> figures;
  for (Figure& figure : MakeFigures(report, GroupRuns(report), {})) {
    figures.emplace(figure.id, std::move(figure));
  }
  const Figure& curves = figures.at("accuracy-time");
  EXPECT_EQ(curves.data.size(), 1u + 2 * 411);
  EXPECT_THAT(curves.caption, HasSubstr("the first 400 other runs are drawn, 10 more"));
  EXPECT_THAT(curves.svg.Inline(), HasSubstr("line ink"));
  const Figure& phases = figures.at("phases");
  EXPECT_EQ(phases.data.size(), 1u + 2 * 411);
  EXPECT_THAT(phases.caption, HasSubstr("370 more configurations are in the data alone"));
  EXPECT_THAT(phases.svg.Inline(), HasSubstr("dense *"));
}

TEST(Figures, OfManyKeysThoseWithoutAFigureAreNamed) {
  ReportRuns report;
  const std::vector<std::string> keys{"a.one", "a.two", "a.three", "a.four", "a.five"};
  for (const std::string& varied : keys) {
    for (const char* value : {"1", "2", "3"}) {
      ReportRun run;
      for (const std::string& key : keys) run.axes.emplace_back(key, key == varied ? value : "0");
      run.label = AxesLabel(run.axes);
      run.status = ReportStatus::kFinished;
      run.score = ScoreOf(0.5, {});
      report.runs.push_back(run);
    }
  }
  const std::vector<Figure> figures = MakeFigures(report, GroupRuns(report), {});
  ASSERT_EQ(figures.back().id, "throughput-four");
  EXPECT_THAT(figures.back().caption, HasSubstr("Not drawn over: a.five."));
}

TEST(Legend, SaysHowManyItHasNoRoomFor) {
  XyPlot plot{
      "id", "t", "d", {"x", false, false, CsvNumber, {}}, {"y", false, false, CsvNumber, {}},
      {},   {}};
  for (int i = 0; i < 25; ++i) {
    PlotSeries series;
    series.name = absl::StrCat("s", i);
    series.points = {{1, 1}};
    plot.series.push_back(series);
  }
  EXPECT_THAT(Draw(plot).Inline(), AllOf(HasSubstr(">s19<"), HasSubstr("and 5 more")));
}

}  // namespace
}  // namespace psgd
