#include "experiment/plan/asha.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

SweepAsha Rules(int reduction, SweepAsha::Metric metric = SweepAsha::ACCURACY) {
  SweepAsha rules;
  rules.add_rungs(1);
  rules.add_rungs(3);
  rules.set_reduction(reduction);
  rules.set_metric(metric);
  return rules;
}

TEST(Asha, OfThreeTheBestGoesOn) {
  Asha asha(Rules(3));
  EXPECT_TRUE(asha.GoesOn("a", {1, 0.5, 1}));  // the first run always goes on
  EXPECT_TRUE(asha.GoesOn("b", {1, 0.4, 1}));
  EXPECT_FALSE(asha.GoesOn("c", {1, 0.3, 1}));  // the best of three is a
  EXPECT_TRUE(asha.GoesOn("d", {1, 0.6, 1}));
  EXPECT_FALSE(asha.GoesOn("e", {1, 0.55, 1}));
  EXPECT_TRUE(asha.GoesOn("f", {1, 0.58, 1}));  // two of six go on
}

TEST(Asha, BetweenRungsNothingIsDecided) {
  Asha asha(Rules(2));
  EXPECT_TRUE(asha.GoesOn("a", {1, 0.9, 1}));
  EXPECT_TRUE(asha.GoesOn("b", {2, 0.1, 1}));
  EXPECT_TRUE(asha.GoesOn("b", {1.5, 0.1, 1}));
  EXPECT_FALSE(asha.GoesOn("b", {1, 0.1, 1}));
}

TEST(Asha, WhatIsToldAgainChangesNothing) {
  Asha asha(Rules(2));
  EXPECT_TRUE(asha.GoesOn("a", {1, 0.5, 1}));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(asha.GoesOn("a", {1, 0.1, 1}));
  EXPECT_FALSE(asha.GoesOn("b", {1, 0.4, 1}));  // one of two, and a has 0.5
}

TEST(Asha, RungsAreComparedAmongThemselves) {
  Asha asha(Rules(2));
  EXPECT_TRUE(asha.GoesOn("a", {1, 0.5, 1}));
  EXPECT_TRUE(asha.GoesOn("a", {3, 0.9, 1}));
  EXPECT_TRUE(asha.GoesOn("b", {1, 0.6, 1}));  // not compared with 0.9
  EXPECT_FALSE(asha.GoesOn("b", {3, 0.8, 1}));
}

TEST(Asha, LossIsBetterWhenLowAndNeverWhenNotFinite) {
  Asha asha(Rules(2, SweepAsha::LOSS));
  EXPECT_TRUE(asha.GoesOn("a", {1, 0, 0.5}));
  EXPECT_TRUE(asha.GoesOn("b", {1, 0, 0.4}));
  EXPECT_FALSE(asha.GoesOn("c", {1, 0, std::numeric_limits<double>::quiet_NaN()}));
}

TEST(Asha, OfManyInAnyOrderAboutTheShareGoesOn) {
  Asha asha(Rules(4));
  int gone_on = 0;
  for (int i = 0; i < 400; ++i) {
    gone_on += asha.GoesOn(absl::StrCat(i), {1, (i * 7919 % 400) / 400.0, 1});
  }
  EXPECT_GT(gone_on, 80);
  EXPECT_LT(gone_on, 130);
}

}  // namespace
}  // namespace psgd
