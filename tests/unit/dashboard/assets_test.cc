#include "dashboard/assets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

using testing::HasSubstr;

TEST(Assets, ThePagesAreThere) {
  EXPECT_THAT(AssetResponse("/").body, HasSubstr("<title>psgd</title>"));
  EXPECT_THAT(AssetResponse("/chart.min.js").body, HasSubstr("Chart.js"));
  EXPECT_THAT(AssetResponse("/style.css").type, HasSubstr("text/css"));
  EXPECT_EQ(AssetResponse("/../style.css").status, 404);
  EXPECT_EQ(AssetResponse("/nothing.js").status, 404);
}

// The pages' content security policy allows no inline scripts or styles.
TEST(Assets, NoScriptOrStyleIsInline) {
  const std::string page = AssetResponse("/").body;
  for (const char* inline_thing :
       {"<style", "style=", "onclick=", "<script>", "http://", "https://"}) {
    EXPECT_EQ(page.find(inline_thing), std::string::npos) << inline_thing;
  }
}

}  // namespace
}  // namespace psgd
