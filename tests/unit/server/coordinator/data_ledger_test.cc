#include "server/coordinator/data_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "tests/unit/server/coordinator/batches.h"

namespace psgd {
namespace {

size_t SizeOf(const Segment& segment) { return Batches(segment.stretches()).size(); }

using Seen = std::map<std::pair<uint32_t, uint32_t>, int>;  // (epoch, batch) -> times

// Records what the worker of rank `rank` trains on in its first `clocks` clocks.
void Train(const Segment& segment, int rank, uint32_t clocks, Seen* seen) {
  const Segment share = ShareOf(segment, segment.workers(rank));
  EXPECT_EQ(share.clocks(), segment.clocks());
  EXPECT_LE(share.batches_size(), static_cast<int>(segment.clocks()));
  for (uint32_t i = 0; i < clocks && i < static_cast<uint32_t>(share.batches_size()); ++i) {
    ++(*seen)[{share.epoch(), share.batches(static_cast<int>(i))}];
  }
}

TEST(DataLedger, DealsEveryBatchOfEveryEpochOnce) {
  for (uint32_t workers = 1; workers <= 5; ++workers) {
    for (uint32_t batches : {1u, 2u, 7u, 20u}) {
      DataLedger ledger({.epochs = 3, .batches_per_epoch = batches, .segment_clocks = 3});
      std::vector<uint32_t> all(workers);
      for (uint32_t w = 0; w < workers; ++w) all[w] = w * 2;
      Seen seen;
      uint64_t clock = 0, id = 0;
      while (const auto segment = ledger.Deal(all)) {
        EXPECT_EQ(segment->id(), ++id);
        EXPECT_EQ(segment->first_clock(), clock);
        EXPECT_GE(segment->clocks(), 1u);
        EXPECT_LE(segment->clocks(), 3u);
        // Shares differ by at most one batch, and the segment has enough clocks for the largest
        // share.
        EXPECT_LE(SizeOf(*segment), segment->clocks() * workers);
        EXPECT_GT(SizeOf(*segment), (segment->clocks() - 1) * workers);
        for (uint32_t rank = 0; rank < workers; ++rank) {
          Train(*segment, static_cast<int>(rank), segment->clocks(), &seen);
        }
        clock += segment->clocks();
      }
      EXPECT_TRUE(ledger.Finished());
      EXPECT_EQ(seen.size(), 3u * batches);
      for (const auto& [batch, times] : seen) EXPECT_EQ(times, 1);
      EXPECT_DOUBLE_EQ(ledger.EpochProgress(), 3);
    }
  }
}

// With local steps, workers may take different numbers of batches in a clock.
TEST(DataLedger, AClockMayHaveSeveralBatchesOfAWorker) {
  for (const std::vector<uint32_t>& steps :
       {std::vector<uint32_t>{3, 3}, {4, 1, 2}, {1, 1, 1}, {5}, {2, 7}}) {
    std::vector<uint32_t> workers(steps.size());
    for (uint32_t w = 0; w < workers.size(); ++w) workers[w] = 10 + w;
    const uint32_t of_clock = std::accumulate(steps.begin(), steps.end(), 0u);
    DataLedger ledger({.epochs = 2, .batches_per_epoch = 40, .segment_clocks = 2});
    Seen seen;
    while (const auto segment = ledger.Deal(workers, steps)) {
      EXPECT_DOUBLE_EQ(segment->epochs_per_clock(), of_clock / 40.0);
      const bool whole = SizeOf(*segment) == 2 * of_clock;
      for (size_t rank = 0; rank < workers.size(); ++rank) {
        const Segment share = ShareOf(*segment, workers[rank]);
        EXPECT_THAT(share.steps(), ::testing::ElementsAre(steps[rank]));
        EXPECT_LE(share.batches_size(), static_cast<int>(2 * steps[rank]));
        if (whole) {
          EXPECT_EQ(share.batches_size(), static_cast<int>(2 * steps[rank]));
        }
        // A short clock is short for all.
        const double part = static_cast<double>(SizeOf(*segment)) / (2 * of_clock);
        EXPECT_NEAR(share.batches_size(), 2 * steps[rank] * part, steps[rank] + 1.0);
        for (const uint32_t batch : share.batches()) ++seen[{share.epoch(), batch}];
      }
    }
    EXPECT_EQ(seen.size(), 80u);
    for (const auto& [batch, times] : seen) EXPECT_EQ(times, 1);
  }
}

TEST(DataLedger, WhatADeadWorkerDidNotDoOfItsClocksIsDealtAgain) {
  for (uint64_t done = 0; done <= 2; ++done) {
    DataLedger ledger({.epochs = 1, .batches_per_epoch = 30, .segment_clocks = 2});
    const auto first = ledger.Deal({0, 1}, {5, 3});
    const Segment share = ShareOf(*first, 1);
    const auto undone = ledger.Return(1, done);
    ASSERT_EQ(undone.size(), 6 - 3 * done);
    for (size_t i = 0; i < undone.size(); ++i) {
      EXPECT_EQ(undone[i].batch, share.batches(static_cast<int>(3 * done + i)));
    }
    const double by_dead = 3.0 * static_cast<double>(done) / 30;
    EXPECT_NEAR(ledger.Done([](uint32_t) { return 0; }), by_dead, 1e-9);
    EXPECT_NEAR(ledger.Done([](uint32_t) { return 1; }), by_dead + 5 / 30.0, 1e-9);
  }
}

TEST(DataLedger, AShareIsWhatTheWorkerNeedsOfASegment) {
  DataLedger ledger({.epochs = 2, .batches_per_epoch = 5, .segment_clocks = 2});
  ledger.Deal({3, 7});
  const Segment segment = *ledger.Deal({3, 7});  // one batch is left
  for (const uint32_t worker : {3, 7}) {
    Segment wanted = segment;
    wanted.clear_workers();
    wanted.add_workers(worker);
    wanted.clear_stretches();
    if (worker == 3) wanted.add_batches(4);
    wanted.set_rank(worker == 3 ? 0 : 1);
    wanted.set_ranks(2);
    EXPECT_EQ(ShareOf(segment, worker).SerializeAsString(), wanted.SerializeAsString());
  }
}

TEST(DataLedger, MarksTheSegmentThatEndsAnEpoch) {
  DataLedger ledger({.epochs = 2, .batches_per_epoch = 8, .segment_clocks = 3});
  std::vector<bool> ends;
  std::vector<double> starts;
  while (const auto segment = ledger.Deal({0, 1})) {
    ends.push_back(ledger.EndsEpoch(segment->id()));
    starts.push_back(segment->epoch_at_start());
    EXPECT_DOUBLE_EQ(segment->epochs_per_clock(), 0.25);
  }
  EXPECT_EQ(ends, (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(starts, (std::vector<double>{0, 0.75, 1, 1.75}));
  EXPECT_FALSE(ledger.EndsEpoch(99));
}

TEST(DataLedger, StopsAtTheStepLimit) {
  DataLedger ledger({.epochs = 100, .batches_per_epoch = 10, .segment_clocks = 4, .max_steps = 7});
  uint64_t clocks = 0;
  uint64_t last = 0;
  while (const auto segment = ledger.Deal({0})) {
    clocks += segment->clocks();
    last = segment->id();
    EXPECT_EQ(ShareOf(*segment, 0).ends_epoch(), clocks == 7);
  }
  EXPECT_EQ(clocks, 7u);
  EXPECT_TRUE(ledger.Finished());
  EXPECT_TRUE(ledger.EndsEpoch(last));  // so that it is evaluated
}

// Short clocks at the end of an epoch count as what they have.
TEST(DataLedger, TheStepLimitCountsTheStepsOfTheWorkerWithMost) {
  DataLedger ledger({.epochs = 100, .batches_per_epoch = 50, .segment_clocks = 4, .max_steps = 90});
  uint64_t steps = 0;
  while (const auto segment = ledger.Deal({0, 1}, {40, 10})) {
    EXPECT_EQ(segment->first_step(), steps);
    EXPECT_EQ(ShareOf(*segment, 1).first_step(), steps);
    steps += static_cast<uint64_t>(ShareOf(*segment, 0).batches_size());
  }
  EXPECT_GE(steps, 90u);
  EXPECT_LT(steps, 90u + 40);
}

// The only batch of an epoch goes to the first worker, though the other one has more steps.
TEST(DataLedger, TheStepLimitHoldsForEpochsOfOneBatch) {
  DataLedger ledger({.epochs = 100, .batches_per_epoch = 1, .segment_clocks = 4, .max_steps = 3});
  for (uint64_t steps = 0; steps < 3; ++steps) {
    const auto segment = ledger.Deal({0, 1}, {1, 4});
    ASSERT_TRUE(segment.has_value());
    EXPECT_EQ(segment->first_step(), steps);
    EXPECT_EQ(ShareOf(*segment, 0).batches_size(), 1);
    EXPECT_EQ(ShareOf(*segment, 1).batches_size(), 0);
  }
  EXPECT_TRUE(ledger.Finished());
}

TEST(DataLedger, WhatADeadWorkerDidNotDoIsDealtAgain) {
  for (uint64_t done = 0; done <= 4; ++done) {
    DataLedger ledger({.epochs = 1, .batches_per_epoch = 20, .segment_clocks = 4});
    Seen seen;
    const auto first = ledger.Deal({0, 1});
    Train(*first, 0, 4, &seen);
    Train(*first, 1, static_cast<uint32_t>(done), &seen);
    const auto undone = ledger.Return(1, done);
    EXPECT_EQ(undone.size(), 4 - done);
    for (const ReturnedBatch& batch : undone) EXPECT_EQ(batch.segment, first->id());
    EXPECT_TRUE(ledger.Return(1, done).empty());  // reported twice
    EXPECT_EQ(ledger.position().repeated, 4 - done);
    while (const auto segment = ledger.Deal({0})) Train(*segment, 0, segment->clocks(), &seen);
    EXPECT_EQ(seen.size(), 20u);
    for (const auto& [batch, times] : seen) EXPECT_EQ(times, 1);
  }
}

TEST(DataLedger, BatchesComeBackAfterTheLastSegmentToo) {
  DataLedger ledger({.epochs = 1, .batches_per_epoch = 6, .segment_clocks = 10});
  ASSERT_TRUE(ledger.Deal({0, 1}).has_value());
  EXPECT_TRUE(ledger.Finished());
  EXPECT_FALSE(ledger.Deal({0}).has_value());
  ledger.Return(1, 1);
  EXPECT_FALSE(ledger.Finished());
  const auto again = ledger.Deal({0});
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(SizeOf(*again), 2u);
  EXPECT_EQ(again->first_clock(), 3u);
  EXPECT_TRUE(ledger.EndsEpoch(again->id()));
  EXPECT_TRUE(ledger.Finished());
}

TEST(DataLedger, ABatchOfAPastEpochIsLostAndCounted) {
  DataLedger ledger({.epochs = 2, .batches_per_epoch = 4, .segment_clocks = 10});
  ledger.Deal({0, 1});
  ledger.Deal({0, 1});
  ledger.Return(1, 1);
  EXPECT_EQ(ledger.position().lost, 1u);
  EXPECT_EQ(ledger.position().repeated, 2u);
  const DataLedger resumed({.epochs = 2, .batches_per_epoch = 4, .segment_clocks = 10},
                           FromRecord(ToRecord(ledger.position())));
  EXPECT_EQ(resumed.position().lost, 1u);
  EXPECT_EQ(resumed.position().repeated, 2u);
}

TEST(DataLedger, ARecordWithoutStepsHadOneInEachClock) {
  const LedgerOptions options{
      .epochs = 2, .batches_per_epoch = 40, .segment_clocks = 10, .max_steps = 8};
  LedgerPositionRecord record =
      ToRecord(LedgerPosition{.clock = 5, .remaining = BatchQueue::UpTo(40)});
  ASSERT_EQ(record.steps(), 0u);
  DataLedger ledger(options, FromRecord(record));
  // Local steps from here on count as such.
  const auto segment = ledger.Deal({0, 1}, {3, 1});
  ASSERT_TRUE(segment.has_value());
  EXPECT_EQ(segment->first_step(), 5u);
  EXPECT_EQ(segment->clocks(), 1u);
  EXPECT_EQ(ledger.position().clock, 6u);
  EXPECT_EQ(ledger.position().steps, 8u);
  EXPECT_TRUE(ledger.Finished());
  record.set_steps(7);
  EXPECT_EQ(FromRecord(record).steps, 7u);
}

TEST(DataLedger, OneThatHoldsTheIdentityLaterReturnsOnlyItsOwn) {
  DataLedger ledger({.epochs = 1, .batches_per_epoch = 40, .segment_clocks = 2});
  ledger.Deal({0, 1});
  EXPECT_EQ(ledger.Return(1, 0).size(), 2u);
  const auto second = ledger.Deal({0, 1});
  const auto undone = ledger.Return(1, 3);
  ASSERT_EQ(undone.size(), 1u);
  EXPECT_EQ(undone[0].batch, Batches(second->stretches())[3]);
}

TEST(DataLedger, ResumesWhereAPositionStands) {
  const LedgerOptions options{.epochs = 2, .batches_per_epoch = 9, .segment_clocks = 2};
  DataLedger whole(options);
  Seen through, parts;
  whole.Deal({0, 1});
  const LedgerPosition position = whole.position();
  while (const auto segment = whole.Deal({0, 1})) {
    for (int rank : {0, 1}) Train(*segment, rank, segment->clocks(), &through);
  }
  DataLedger resumed(options, position);
  EXPECT_EQ(resumed.latest(), 0u);
  EXPECT_DOUBLE_EQ(resumed.EpochProgress(), 4.0 / 9);
  uint64_t clock = 2;
  while (const auto segment = resumed.Deal({0, 1})) {
    EXPECT_EQ(segment->first_clock(), clock);
    clock += segment->clocks();
    for (int rank : {0, 1}) Train(*segment, rank, segment->clocks(), &parts);
  }
  EXPECT_EQ(parts, through);
  EXPECT_EQ(resumed.position().clock, whole.position().clock);
}

// A worker may claim any number of batches. It must not cost memory, here or in the record.
TEST(DataLedger, AnEpochMayHaveBillionsOfBatches) {
  DataLedger ledger({.epochs = 1, .batches_per_epoch = UINT32_MAX, .segment_clocks = 3});
  ledger.Deal({0, 1});
  const auto segment = ledger.Deal({0, 1});
  EXPECT_THAT(Batches(segment->stretches()), ::testing::ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_EQ(ledger.Return(1, 4).size(),
            2u);  // it had finished the first segment and a clock of the second
  EXPECT_EQ(ledger.position().remaining.size(), UINT32_MAX - 12 + 2u);
  EXPECT_LT(ledger.Save().ByteSizeLong(), 200u);
}

// The record is written again with each report of a worker.
TEST(DataLedger, ARecordIsSmallAlsoIfASegmentIsALongEpoch) {
  const LedgerOptions options{.epochs = 2, .batches_per_epoch = 300000, .segment_clocks = 1000000};
  std::vector<uint32_t> workers(40);
  std::iota(workers.begin(), workers.end(), 0u);
  DataLedger ledger(options);
  ledger.Deal(workers);
  for (uint32_t dead = 30; dead < 40; ++dead) EXPECT_GT(ledger.Return(dead, dead).size(), 7000u);
  workers.resize(30);
  const auto segment = ledger.Deal(workers);
  ledger.Return(7, 7510);
  EXPECT_LT(ledger.Save().ByteSizeLong(), 1000u);
  const DataLedger again(options, ledger.Save());
  EXPECT_EQ(again.Save().SerializeAsString(), ledger.Save().SerializeAsString());
  EXPECT_EQ(ShareOf(*again.Find(2), 3).SerializeAsString(),
            ShareOf(*segment, 3).SerializeAsString());
}

TEST(DataLedger, GoesOnFromARecordThatListsBatches) {
  const LedgerOptions options{.epochs = 1, .batches_per_epoch = 20, .segment_clocks = 3};
  DataLedger ledger(options);
  const auto segment = ledger.Deal({0, 1});
  LedgerRecord listed = ledger.Save();
  Segment* const dealt = listed.mutable_dealt(0)->mutable_segment();
  dealt->clear_stretches();
  for (const uint32_t batch : Batches(segment->stretches())) dealt->add_batches(batch);
  DataLedger again(options, listed);
  EXPECT_THAT(ShareOf(*again.Find(1), 1).batches(), ::testing::ElementsAre(1, 3, 5));
  EXPECT_TRUE(again.Save().dealt(0).segment().batches().empty());
  EXPECT_EQ(again.Return(1, 1).size(), 2u);
}

// Returned batches come last, in the order of their return, also after a record was read.
TEST(BatchQueue, KeepsItsOrder) {
  BatchQueue queue = BatchQueue::UpTo(4);
  for (const uint32_t batch : {4, 1, 2, 0, 0}) queue.Add(batch);
  EXPECT_EQ(queue.size(), 9u);
  EXPECT_EQ(queue.Save().size(), 4);
  BatchQueue copy(queue.Save());
  EXPECT_THAT(Batches(copy.Take(3)), ::testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(Batches(copy.Take(0)), ::testing::ElementsAre());
  EXPECT_THAT(Batches(copy.Take(100)), ::testing::ElementsAre(3, 4, 1, 2, 0, 0));
  EXPECT_TRUE(copy.empty());
  EXPECT_THAT(Batches(copy.Take(1)), ::testing::ElementsAre());
}

TEST(BatchQueue, KeepsEqualStepsTogether) {
  BatchQueue queue;
  const std::vector<uint32_t> batches = {3, 7, 11, 15, 19, 4, 8, 12, 13, 14, 2};
  for (const uint32_t batch : batches) queue.Add(batch);
  EXPECT_EQ(queue.Save().size(), 4);
  EXPECT_EQ(Batches(queue), batches);
  EXPECT_THAT(Batches(queue.Take(4)), ::testing::ElementsAre(3, 7, 11, 15));
  EXPECT_THAT(Batches(queue.Take(2)), ::testing::ElementsAre(19, 4));
  queue.Add(7);
  EXPECT_THAT(Batches(queue), ::testing::ElementsAre(8, 12, 13, 14, 2, 7));
  // One that is left of a stretch does not say the next batch's steps.
  BatchQueue last;
  for (const uint32_t batch : {0, 40}) last.Add(batch);
  last.Take(1);
  last.Add(41);
  EXPECT_THAT(Batches(last), ::testing::ElementsAre(40, 41));
}

TEST(DataLedger, ForgetsButKeepsCounting) {
  DataLedger ledger({.epochs = 1, .batches_per_epoch = 10, .segment_clocks = 1});
  for (int i = 0; i < 3; ++i) ledger.Deal({0});
  ledger.Forget(10);
  EXPECT_EQ(ledger.latest(), 3u);
  EXPECT_EQ(ledger.Find(2), nullptr);
  EXPECT_NE(ledger.Find(3), nullptr);
  EXPECT_EQ(ledger.Deal({0})->id(), 4u);
}

TEST(DataLedger, NobodyGetsNothing) {
  DataLedger ledger({});
  EXPECT_FALSE(ledger.Deal({}).has_value());
}

}  // namespace
}  // namespace psgd
