#include "experiment/report/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  // One number, or none, is no reason to divide by zero.
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

}  // namespace
}  // namespace psgd
