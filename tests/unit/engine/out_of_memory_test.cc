#include "engine/runtime/out_of_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/unit/engine/network_fixture.h"

namespace psgd {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr SampleShape kLargeShape = {1, 28, 28, 10};

TEST(OutOfMemoryTest, NamesTheLargestTensorsAndWhatFits) {
  NetworkOptions options = {.backend = "reference", .memory = size_t{16} << 20};
  const auto network = Network::Create(testing::ZooModel("lenet5"), kLargeShape, 512, options);
  ASSERT_TRUE(absl::IsResourceExhausted(network.status())) << network.status();
  const std::string message(network.status().message());
  EXPECT_THAT(message, HasSubstr("lenet5 with batches of 512 takes"));
  EXPECT_THAT(message, HasSubstr("16.0 MiB are free"));
  // 512 x 20 x 24 x 24 values.
  EXPECT_THAT(message, HasSubstr("conv1 22.5 MiB"));
  EXPECT_THAT(message, ContainsRegex("; a data.batch of about [1-9][0-9]* fits"));
  EXPECT_THAT(message, ContainsRegex("with model.recompute: auto, a data.batch of about [1-9]"));

  // The batch in the error message fits.
  const size_t at = message.find("about ") + 6;
  const int batch = std::stoi(message.substr(at));
  EXPECT_LT(batch, 512);
  EXPECT_TRUE(Network::Create(testing::ZooModel("lenet5"), kLargeShape, batch, options).ok());
}

TEST(OutOfMemoryTest, SaysThatNothingFits) {
  NetworkOptions options = {.backend = "reference", .memory = size_t{1} << 20};
  const auto network = Network::Create(testing::ZooModel("lenet5"), kLargeShape, 8, options);
  const std::string message(network.status().message());
  EXPECT_THAT(message, HasSubstr("fc1.weight with its gradient 3.1 MiB"));
  EXPECT_THAT(message, HasSubstr("not even one sample fits"));
}

// A failed allocation gives the same error, even if the memory seemed to be free.
TEST(OutOfMemoryTest, AnAllocationThatFailsIsToldAlike) {
  const auto planned = PlannedNetwork::Create(testing::ZooModel("lenet5"), kLargeShape, 64,
                                              {.backend = "reference"});
  ASSERT_TRUE(planned.ok()) << planned.status();
  const absl::Status status = OutOfMemory(testing::ZooModel("lenet5"), kLargeShape, 64,
                                          {.backend = "reference"}, **planned, 0);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the system does not give them"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("conv1 2.8 MiB"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("take a smaller data.batch"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("of about")));
}

TEST(OutOfMemoryTest, LargestComeFirst) {
  const auto planned = PlannedNetwork::Create(testing::ZooModel("lenet5"), kLargeShape, 64,
                                              {.backend = "reference"});
  ASSERT_TRUE(planned.ok()) << planned.status();
  const auto largest = LargestTensors(**planned, 3);
  ASSERT_EQ(largest.size(), 3u);
  EXPECT_GE(largest[0].second, largest[1].second);
  EXPECT_GE(largest[1].second, largest[2].second);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// With `ulimit -v` the addresses that are left count as free memory.
TEST(OutOfMemoryTest, HeedsALimitOnTheProcess) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit limited = before;
  limited.rlim_cur = rlim_t{4} << 30;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limited), 0);
  const auto network =
      Network::Create(testing::ZooModel("lenet5"), kLargeShape, 1 << 17, {.backend = "reference"});
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_TRUE(absl::IsResourceExhausted(network.status())) << network.status();
  EXPECT_THAT(std::string(network.status().message()), HasSubstr("conv1 5760.0 MiB"));
}
#endif

}  // namespace
}  // namespace psgd
