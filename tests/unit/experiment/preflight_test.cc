// What keeps a run from its beginning, and not from going on.
#include "experiment/launch/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "experiment/config/config_yaml.h"
#include "tests/unit/data/npz_files.h"

namespace psgd {
namespace {

using testing::Contains;
using testing::HasSubstr;

// Rows that begin with padding teach bag_of_tokens nothing.
TEST(Preflight, OfPaddingInFrontLetsARunGoOn) {
  ScratchFolder folder;
  WriteFile(folder.File("x.npy"), NpyOf<int32_t>("<i4", {4, 2}, {0, 1, 0, 2, 0, 1, 0, 2}));
  WriteFile(folder.File("y.npy"), NpyOf<int32_t>("<i4", {4}, {0, 1, 0, 1}));
  const auto config = ParseConfig(
      "model: {zoo: bag_of_tokens}\ndata: {format: arrays, batch: 1, "
      "table: {test_fraction: 0.5}, path: " +
          folder.path() + "}\n",
      "run.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  const auto begins = CheckTrainable(*config, /*begins=*/true);
  EXPECT_THAT(std::string(begins.status().message()), HasSubstr("has token 1 behind a 0"));
  const auto goes_on = CheckTrainable(*config, /*begins=*/false);
  ASSERT_TRUE(goes_on.ok()) << goes_on.status();
  EXPECT_THAT(goes_on->notes, Contains(HasSubstr("has token 1 behind a 0")));
}

}  // namespace
}  // namespace psgd
