#include "server/control/stall_report.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

using News = StallReport::News;

TEST(StallReport, OneStallIsToldOnceAndItsEndWithTheFirstWrite) {
  StallReport report;
  Time now = Milliseconds(1000);
  EXPECT_EQ(report.See(false, now), News::kNone);
  EXPECT_EQ(report.See(true, now), News::kWaits);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(report.See(true, now += Milliseconds(100)), News::kNone);
  EXPECT_EQ(report.See(false, now += Milliseconds(1)), News::kGoesOn);
  EXPECT_EQ(report.times(), 1);
  EXPECT_EQ(report.See(false, now += StallReport::kCalm), News::kNone);
  EXPECT_EQ(report.See(true, now), News::kWaits);
}

TEST(StallReport, OfManyInARowTheFirstIsToldAloneAndTheOthersAsOne) {
  StallReport report;
  Time now = Milliseconds(1000);
  int waits = 0, goes_on = 0;
  for (int i = 0; i < 1000; ++i) {
    const News news = report.See(i % 4 < 2, now += Milliseconds(100));
    waits += news == News::kWaits;
    goes_on += news == News::kGoesOn;
  }
  EXPECT_EQ(waits, 2);
  EXPECT_EQ(goes_on, 1);
  EXPECT_EQ(report.See(false, now + StallReport::kCalm), News::kGoesOn);
  EXPECT_EQ(report.times(), 249);
}

}  // namespace
}  // namespace psgd
