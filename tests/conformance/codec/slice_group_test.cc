// Which slices are launched together, and when.
#include "compression/cuda/slice_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/conformance/codec/host_queue.h"

namespace psgd::codec_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Adds kKind to each number.
template <int kKind>
struct AddBody {
  using Shared = cuda::Nothing;
  uint32_t* numbers;
  uint32_t count;

  PS_HD void operator()(const cuda::Block& block, Shared&) const {
    block.ForAll(count, [&](size_t i) { numbers[i] += kKind; });
  }
};

// Writes down the calls.
class LoggingDevice {
 public:
  using Queue = HostQueue;
  struct Event {};
  struct Timer {};

  absl::StatusOr<Event> NewEvent() const { return Event(); }
  absl::StatusOr<Timer> NewTimer() const { return Timer(); }
  absl::Status SetScratch(size_t bytes) {
    if (bytes > memory) return absl::ResourceExhaustedError("full");
    scratch = bytes;
    return absl::OkStatus();
  }
  absl::Status Begin(void* ready) {
    const int* const number = static_cast<int*>(ready);
    log.push_back(absl::StrCat("behind ", number == nullptr ? 0 : *number));
    return absl::OkStatus();
  }
  absl::Status TakeError() { return std::exchange(error, absl::OkStatus()); }
  absl::Status StartTimer(Timer*) {
    log.push_back("timer");
    return absl::OkStatus();
  }
  absl::Status StartCopies(std::span<const cuda::CopyOutBody> copies, Timer* timer, Event*) {
    log.push_back(absl::StrCat(launches, " launches, ", copies.size(), " copies",
                               timer == nullptr ? "" : ", timer"));
    launches = 0;
    return absl::OkStatus();
  }
  absl::Status Wait(Event*) {
    log.push_back("wait");
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Passed(Event*) const { return passed; }
  absl::StatusOr<double> SecondsOf(Timer*) const { return 2; }
  HostRunner* runner() { return &runner_; }

  std::vector<std::string> log;
  size_t launches = 0, scratch = 0, memory = size_t{1} << 30;
  bool passed = false;
  absl::Status error;

 private:
  HostRunner runner_{/*backwards=*/false, [this](std::function<void()> launch) {
                       ++launches;
                       launch();
                     }};
};

class SliceGroupTest : public ::testing::Test {
 protected:
  using Group = cuda::SliceGroup<LoggingDevice>;

  // A slice that adds 1 and then 10 to the numbers.
  Group::FlightPtr Start(void* ready, std::vector<uint32_t>* numbers, Group::Slice slice = {}) {
    const auto count = static_cast<uint32_t>(numbers->size());
    return group_
        .Start(slice, ready,
               [&](HostQueue& queue) {
                 queue.Zero(numbers->data(), count);
                 queue.Launch(cuda::BlocksFor(count), AddBody<1>{numbers->data(), count});
                 queue.Launch(cuda::BlocksFor(count), AddBody<10>{numbers->data(), count});
               })
        .value();
  }
  std::vector<std::string> TakeLog() { return std::exchange(device_.log, {}); }

  LoggingDevice device_;
  Group group_{&device_};
};

TEST_F(SliceGroupTest, LaunchesWhatIsReadyTogether) {
  std::vector<std::vector<uint32_t>> numbers;
  for (size_t count : {1, 0, 700, 5, 2000}) numbers.emplace_back(count, 77);
  int first = 1, second = 2;
  std::vector<Group::FlightPtr> flights;
  for (size_t i = 0; i < numbers.size(); ++i) {
    flights.push_back(Start(i < 3 ? &first : &second, &numbers[i]));
    // The first group runs once a slice of the second is there.
    EXPECT_EQ(device_.log.empty(), i < 3);
  }
  EXPECT_THAT(TakeLog(), ElementsAre("behind 1", "3 launches, 0 copies"));
  // The wait for the first group launches the second.
  ASSERT_TRUE(group_.Wait(flights[0].get()).ok());
  EXPECT_THAT(TakeLog(), ElementsAre("behind 2", "3 launches, 0 copies", "wait"));
  for (const Group::FlightPtr& flight : flights) ASSERT_TRUE(group_.Wait(flight.get()).ok());
  EXPECT_THAT(TakeLog(), ElementsAre("wait"));
  for (const auto& each : numbers) EXPECT_THAT(each, ::testing::Each(11));
}

TEST_F(SliceGroupTest, TellsWhetherAGroupIsDone) {
  std::vector<uint32_t> numbers(3);
  const Group::FlightPtr flight = Start(nullptr, &numbers);
  device_.passed = true;
  EXPECT_FALSE(group_.IsDone(flight.get()).value());  // it is not launched
  ASSERT_TRUE(group_.Flush().ok());
  device_.passed = false;
  EXPECT_FALSE(group_.IsDone(flight.get()).value());
  device_.passed = true;
  EXPECT_TRUE(group_.IsDone(flight.get()).value());
  ASSERT_TRUE(group_.Wait(flight.get()).ok());
  EXPECT_THAT(TakeLog(), ElementsAre("behind 0", "3 launches, 0 copies"));  // and no wait
}

TEST_F(SliceGroupTest, TakesAFewLaunchesForManySlices) {
  std::vector<std::vector<uint32_t>> numbers(200, std::vector<uint32_t>(300));
  Group::FlightPtr flight;
  for (auto& each : numbers) flight = Start(nullptr, &each);
  ASSERT_TRUE(group_.Wait(flight.get()).ok());
  // A kernel has 4 KiB of parameters; a body takes 40 bytes.
  EXPECT_THAT(TakeLog(), ElementsAre("behind 0", "6 launches, 0 copies", "wait"));
  for (const auto& each : numbers) EXPECT_THAT(each, ::testing::Each(11));
}

TEST_F(SliceGroupTest, SlicesOfOtherKindsLaunchApart) {
  std::vector<std::vector<uint32_t>> numbers(4, std::vector<uint32_t>(300, 5));
  for (size_t i = 0; i < numbers.size(); ++i) {
    std::vector<uint32_t>& own = numbers[i];
    ASSERT_TRUE(group_
                    .Start({}, nullptr,
                           [&](HostQueue& queue) {
                             if (i % 2 == 1) queue.Launch(1, AddBody<100>{own.data(), 300});
                             queue.Launch(2, AddBody<1000>{own.data(), 300});
                           })
                    .ok());
  }
  ASSERT_TRUE(group_.Flush().ok());
  EXPECT_THAT(TakeLog(), ElementsAre("behind 0", "3 launches, 0 copies"));
  EXPECT_THAT(numbers[2], ::testing::Each(1005));
  EXPECT_THAT(numbers[3], ::testing::Each(1105));
}

TEST_F(SliceGroupTest, LaunchesAGroupThatIsFull) {
  std::vector<uint32_t> numbers(3);
  for (int slice = 0; slice < 17; ++slice) {
    Start(nullptr, &numbers, {.elements = size_t{1} << 20, .copy = cuda::CopyOutBody()});
  }
  EXPECT_THAT(TakeLog(),
              ElementsAre("behind 0", "3 launches, 8 copies", "behind 0", "3 launches, 8 copies"));
}

TEST_F(SliceGroupTest, SharesScratchMemoryAmongTheSlicesOfAGroup) {
  constexpr size_t kMebibyte = 1 << 20;
  const auto take = [](size_t bytes) {
    return [=](HostQueue& queue) { queue.Scratch<std::byte>(bytes); };
  };
  EXPECT_EQ(group_.Fit(0, take(1000)).value(), 1024u);
  EXPECT_EQ(device_.scratch, 1024u);
  EXPECT_EQ(group_.Fit(1024, take(300)).value(), 1024u);
  EXPECT_EQ(device_.scratch, 1024u);
  for (int slice = 0; slice < 4; ++slice) {
    EXPECT_EQ(group_.Fit(0, take(20 * kMebibyte)).value(), 20 * kMebibyte);
  }
  // More than 64 MiB only for a slice that needs it alone.
  EXPECT_EQ(device_.scratch, 64 * kMebibyte);
  for (int slice = 0; slice < 4; ++slice) {
    ASSERT_TRUE(group_.Start({.scratch = 20 * kMebibyte}, nullptr, take(20 * kMebibyte)).ok());
  }
  EXPECT_THAT(TakeLog(), ElementsAre("behind 0", "0 launches, 0 copies"));
  EXPECT_EQ(group_.Fit(0, take(100 * kMebibyte)).value(), 100 * kMebibyte);
  EXPECT_EQ(device_.scratch, 100 * kMebibyte);
}

TEST_F(SliceGroupTest, MakesSmallGroupsWhereMemoryIsShort) {
  const auto take = [](size_t bytes) {
    return [=](HostQueue& queue) { queue.Scratch<std::byte>(bytes); };
  };
  device_.memory = 3000;
  EXPECT_EQ(group_.Fit(0, take(2048)).value(), 2048u);
  EXPECT_EQ(group_.Fit(0, take(1024)).value(), 1024u);
  EXPECT_EQ(device_.scratch, 2048u);
  EXPECT_TRUE(absl::IsResourceExhausted(group_.Fit(0, take(4096)).status()));
  for (size_t bytes : {2048, 1024, 1024, 256}) {
    ASSERT_TRUE(group_.Start({.scratch = bytes}, nullptr, take(bytes)).ok());
  }
  EXPECT_THAT(TakeLog(),
              ElementsAre("behind 0", "0 launches, 0 copies", "behind 0", "0 launches, 0 copies"));
}

TEST_F(SliceGroupTest, TimesGroupsOfTimedSlices) {
  std::vector<uint32_t> numbers(3);
  Start(nullptr, &numbers);
  const Group::FlightPtr flight = Start(nullptr, &numbers, {.timed = true});
  EXPECT_EQ(Start(nullptr, &numbers, {.timed = true}), flight);
  ASSERT_TRUE(group_.Wait(flight.get()).ok());
  EXPECT_THAT(TakeLog(), ElementsAre("behind 0", "3 launches, 0 copies", "behind 0", "timer",
                                     "3 launches, 0 copies, timer", "wait"));
  EXPECT_EQ(group_.SecondsOf(flight.get()).value(), 2);
}

TEST_F(SliceGroupTest, RefusesASliceThatTakesMoreThanItSaid) {
  const auto take = [](HostQueue& queue) { queue.Scratch<std::byte>(4096); };
  EXPECT_EQ(group_.Fit(0, [](HostQueue& queue) { queue.Scratch<std::byte>(1024); }).value(), 1024u);
  EXPECT_TRUE(absl::IsInternal(group_.Start({.scratch = 1024}, nullptr, take).status()));
  EXPECT_THAT(TakeLog(), IsEmpty());
}

TEST_F(SliceGroupTest, ASliceThatGoesAwayTakesItsGroupAlong) {
  std::vector<uint32_t> numbers(3, 7);
  const Group::FlightPtr gone = Start(nullptr, &numbers);
  group_.Remove(gone.get(), 0);
  EXPECT_FALSE(group_.Wait(gone.get()).ok());
  EXPECT_THAT(TakeLog(), IsEmpty());
  EXPECT_THAT(numbers, ::testing::Each(7));
}

TEST_F(SliceGroupTest, TellsThatALaunchFailed) {
  std::vector<uint32_t> numbers(3);
  const Group::FlightPtr flight = Start(nullptr, &numbers);
  device_.error = absl::InternalError("no such kernel");
  EXPECT_EQ(group_.Wait(flight.get()).message(), "no such kernel");
  EXPECT_FALSE(group_.Wait(flight.get()).ok());
}

}  // namespace
}  // namespace psgd::codec_test
