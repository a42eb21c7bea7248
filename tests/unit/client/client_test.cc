// libpsgd with a server in the same process that answers late, with errors, or as it should.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "include/psgd.h"
#include "tests/unit/client/small_server.h"

namespace psgd {
namespace {

using testing::HasSubstr;

constexpr size_t kElements = 1000;
constexpr uint64_t kSamples = 40;  // ten batches of four

psgd_client Joined(const SmallServer& server, float first = 1, const char* name = nullptr) {
  const std::string address = server.address();
  psgd_join_options options{.size = sizeof options, .server = address.c_str(), .name = name};
  psgd_client client = 0;
  EXPECT_EQ(psgd_join(&options, &client), PSGD_OK) << psgd_last_error();
  const int64_t shape[] = {kElements / 10, 10};
  const std::vector<float> values(kElements, first);
  EXPECT_EQ(psgd_add_tensor(client, "w", shape, 2, PSGD_SPARSE, values.data()), PSGD_OK)
      << psgd_last_error();
  return client;
}

// Calls until the answer is another than PSGD_AGAIN, for at most half a minute.
template <typename Call>
psgd_status Poll(const Call& call) {
  const Time start = SteadyNow();
  psgd_status status = PSGD_AGAIN;
  while (status == PSGD_AGAIN && SteadyNow() - start < std::chrono::seconds(30)) status = call();
  return status;
}

psgd_status PollShare(psgd_client client, int32_t timeout_ms, psgd_share* share) {
  return Poll([&] { return psgd_next_share(client, timeout_ms, share); });
}

psgd_status PollWait(psgd_client client, int32_t timeout_ms) {
  return Poll([&] { return psgd_wait(client, timeout_ms); });
}

TEST(Client, ACommitThatFailedCanBeRepeated) {
  SmallServer server;
  const psgd_client client = Joined(server);
  EXPECT_EQ(psgd_commit(client, 3, 1), PSGD_INVALID);
  server.refused_registrations = 1;
  EXPECT_EQ(psgd_commit(client, kSamples, 1), PSGD_REFUSED);
  EXPECT_THAT(psgd_last_error(), HasSubstr("not now"));
  psgd_share share{.size = sizeof share};
  EXPECT_EQ(psgd_next_share(client, 0, &share), PSGD_STATE);
  const float more = 1;
  EXPECT_EQ(psgd_add_tensor(client, "bias", nullptr, 0, 0, &more), PSGD_OK);
  EXPECT_EQ(psgd_commit(client, kSamples, 1), PSGD_OK) << psgd_last_error();
  EXPECT_EQ(psgd_commit(client, kSamples, 1), PSGD_STATE);
  EXPECT_EQ(PollShare(client, 100, &share), PSGD_OK) << psgd_last_error();
  EXPECT_EQ(share.batches, 10u);
  EXPECT_EQ(share.ranks, 1u);
  EXPECT_EQ(psgd_leave(client, 0, nullptr), PSGD_OK) << psgd_last_error();
}

uint32_t NumberOf(psgd_client client) {
  psgd_run run{.size = sizeof run};
  EXPECT_EQ(psgd_get_run(client, &run), PSGD_OK) << psgd_last_error();
  return run.worker;
}

TEST(Client, ANewProcessOfTheSameNameTakesThePlaceOfTheEarlierOne) {
  SmallServer server("", 2);
  const psgd_client earlier = Joined(server, 1, "one"), heir = Joined(server, 1, "one");
  const psgd_client nameless = Joined(server), other = Joined(server);
  EXPECT_EQ(NumberOf(heir), NumberOf(earlier));
  EXPECT_EQ(NumberOf(nameless), 1u);
  EXPECT_EQ(NumberOf(other), 2u);
  EXPECT_EQ(psgd_commit(earlier, kSamples, 1), PSGD_REFUSED);
  EXPECT_THAT(psgd_last_error(), HasSubstr("was replaced"));
  for (const psgd_client client : {earlier, heir, nameless, other})
    (void)psgd_leave(client, 0, nullptr);
}

// Another leader of the run does not know who was asked for the first weights.
TEST(Client, WeightsThatNobodyAskedForAreRegisteredAgain) {
  SmallServer server;
  const psgd_client client = Joined(server);
  server.refused_weights = 2;
  EXPECT_EQ(psgd_commit(client, kSamples, 1), PSGD_OK) << psgd_last_error();
  EXPECT_EQ(server.registrations, 4);
  EXPECT_EQ(psgd_leave(client, 0, nullptr), PSGD_OK);
  SmallServer never;
  const psgd_client other = Joined(never);
  never.refused_weights = 100;
  EXPECT_EQ(psgd_commit(other, kSamples, 1), PSGD_REFUSED);
  never.refused_weights = 0;
  EXPECT_EQ(psgd_commit(other, kSamples, 1), PSGD_OK) << psgd_last_error();
  EXPECT_EQ(psgd_leave(other, 0, nullptr), PSGD_OK);
}

// A program that never waits gets through a run, also while codecs are tried and the link is
// measured, and each pull changes its weights once.
TEST(Client, PollingWithoutWaitingGetsOn) {
  SmallServer server("compression: {push: auto, pull: delta, dense_below: 1}\n");
  const psgd_client client = Joined(server);
  ASSERT_EQ(psgd_commit(client, kSamples, 3), PSGD_OK) << psgd_last_error();
  psgd_share share{.size = sizeof share};
  std::vector<float> weights(kElements);
  int steps = 0;
  while (PollShare(client, 0, &share) == PSGD_OK) {
    for (uint32_t i = 0; i < share.batches; ++i) {
      ASSERT_EQ(PollWait(client, 0), PSGD_OK) << psgd_last_error();
      ASSERT_EQ(psgd_get(client, 0, weights.data(), kElements), PSGD_OK);
      for (const float weight : weights) ASSERT_NEAR(weight, 1 - steps, 1e-2);
      for (float& weight : weights) weight = std::round(weight) - 1;
      ASSERT_EQ(psgd_push_weights(client, 0, weights.data(), kElements), PSGD_OK)
          << psgd_last_error();
      ASSERT_EQ(psgd_end_step(client, nullptr), PSGD_OK);
      ++steps;
    }
    ASSERT_EQ(PollWait(client, 0), PSGD_OK) << psgd_last_error();
  }
  EXPECT_EQ(steps, 30) << psgd_last_error();
  EXPECT_EQ(psgd_leave(client, 0, nullptr), PSGD_OK) << psgd_last_error();
}

// Other threads look at the client that one thread trains. Each has its own last error, and all are
// told when the client has left.
TEST(Client, SeveralThreadsCallOneClient) {
  SmallServer server;
  const psgd_client client = Joined(server);
  ASSERT_EQ(psgd_commit(client, kSamples, 3), PSGD_OK) << psgd_last_error();
  std::atomic<int> looked = 0;
  const auto look = [&](uint32_t thread) {
    std::vector<float> seen(kElements);
    std::vector<uint32_t> indices(4);
    while (true) {
      psgd_timings timings{.size = sizeof timings};
      const psgd_status status = psgd_get_timings(client, &timings);
      if (status != PSGD_OK) {
        EXPECT_EQ(status, PSGD_INVALID);
        EXPECT_THAT(psgd_last_error(), HasSubstr("has left the run"));
        return;
      }
      // All weights of a version are the same.
      if (psgd_get(client, 0, seen.data(), kElements) == PSGD_OK) {
        EXPECT_EQ(seen, std::vector<float>(kElements, seen[0]));
        ++looked;
      }
      EXPECT_NE(psgd_wait(client, 1), PSGD_INTERNAL) << psgd_last_error();
      EXPECT_NE(psgd_batch(client, 0, indices.data(), 4), PSGD_INTERNAL) << psgd_last_error();
      const std::string tensor = "tensor" + std::to_string(thread);
      EXPECT_NE(psgd_add_tensor(client, tensor.c_str(), nullptr, -1, 0, seen.data()), PSGD_OK);
      EXPECT_NE(psgd_get(client, 100 + thread, seen.data(), kElements), PSGD_OK);
      const std::string error = psgd_last_error();
      if (!absl::StrContains(error, "has left")) {
        EXPECT_THAT(error, HasSubstr(std::to_string(100 + thread)));
      }
    }
  };
  std::vector<std::jthread> threads;
  for (uint32_t thread = 0; thread < 4; ++thread) threads.emplace_back(look, thread);
  const absl::Cleanup ends_threads = [&] { psgd_leave(client, 1, "the test failed"); };
  psgd_share share{.size = sizeof share};
  std::vector<float> weights(kElements);
  int steps = 0;
  while (PollShare(client, 1, &share) == PSGD_OK) {
    for (uint32_t i = 0; i < share.batches; ++i, ++steps) {
      ASSERT_EQ(PollWait(client, 1), PSGD_OK) << psgd_last_error();
      ASSERT_EQ(psgd_get(client, 0, weights.data(), kElements), PSGD_OK);
      ASSERT_EQ(weights, std::vector<float>(kElements, static_cast<float>(1 - steps)));
      for (float& weight : weights) weight -= 1;
      ASSERT_EQ(psgd_push_weights(client, 0, weights.data(), kElements), PSGD_OK)
          << psgd_last_error();
      ASSERT_EQ(psgd_end_step(client, nullptr), PSGD_OK);
    }
    ASSERT_EQ(PollWait(client, 1), PSGD_OK) << psgd_last_error();
  }
  EXPECT_EQ(steps, 30) << psgd_last_error();
  while (looked < 20) std::this_thread::yield();
  EXPECT_EQ(psgd_leave(client, 0, nullptr), PSGD_OK) << psgd_last_error();
  threads.clear();
  EXPECT_EQ(server.Weights(), std::vector<float>(kElements, 1 - 30));
}

// The pauses of a run that waits for another worker hold for a program that polls.
TEST(Client, AProgramThatGoesDownDoesNotWaitForTheCallOfAnotherThread) {
  SmallServer server("", /*workers=*/2);
  const psgd_client client = Joined(server);
  ASSERT_EQ(psgd_commit(client, kSamples, 1), PSGD_OK) << psgd_last_error();
  psgd_status waited = PSGD_OK;
  std::thread other([&] {
    psgd_share share{.size = sizeof share};
    waited = psgd_next_share(client, 20'000, &share);  // for the second worker, who never comes
  });
  while (server.segments_asked == 0) std::this_thread::sleep_for(Milliseconds(5));
  EXPECT_EQ(psgd_leave(client, 1, "it failed"), PSGD_OK) << psgd_last_error();
  other.join();
  EXPECT_EQ(waited, PSGD_OVER);
}

TEST(Client, PollingDoesNotAskWithoutPause) {
  SmallServer server("", /*workers=*/2);
  const psgd_client client = Joined(server);
  ASSERT_EQ(psgd_commit(client, kSamples, 1), PSGD_OK) << psgd_last_error();
  psgd_share share{.size = sizeof share};
  const Time start = SteadyNow();
  while (SteadyNow() - start < std::chrono::milliseconds(550)) {
    ASSERT_EQ(psgd_next_share(client, 0, &share), PSGD_AGAIN);
  }
  EXPECT_GE(server.segments_asked, 2);
  EXPECT_LE(server.segments_asked, 7);
  EXPECT_EQ(psgd_leave(client, 0, nullptr), PSGD_OK);
}

// The worker of a checkpoint ended while it saved its state.
TEST(Client, HalfAStateIsAnErrorThatSaysWhatToDo) {
  SmallServer server;
  server.has_half_a_state = true;
  const psgd_client client = Joined(server);
  ASSERT_EQ(psgd_commit(client, kSamples, 1), PSGD_OK) << psgd_last_error();
  psgd_share share{.size = sizeof share};
  ASSERT_EQ(PollShare(client, 100, &share), PSGD_OK) << psgd_last_error();
  size_t size = 0;
  EXPECT_EQ(psgd_load_state(client, nullptr, 0, &size), PSGD_DATA_LOSS);
  EXPECT_THAT(psgd_last_error(), HasSubstr("only a part of the state of worker 0"));
  EXPECT_THAT(psgd_last_error(), HasSubstr("--checkpoint ID"));
  EXPECT_EQ(psgd_leave(client, 0, nullptr), PSGD_OK);
}

// What a codec left behind of a worker that leaves is pushed, however short the program waits and
// however late the shard answers.
TEST(Client, WhatIsLeftBehindIsPushedBeforeTheEnd) {
  SmallServer server("compression: {push: {topk: {density: 0.01}}, dense_below: 1}\n");
  const psgd_client client = Joined(server);
  ASSERT_EQ(psgd_commit(client, kSamples, 3), PSGD_OK) << psgd_last_error();
  ASSERT_EQ(psgd_keep_state(client), PSGD_OK);
  psgd_share share{.size = sizeof share};
  ASSERT_EQ(PollShare(client, 100, &share), PSGD_OK) << psgd_last_error();
  std::vector<float> weights(kElements);
  std::vector<float> wanted(kElements, 1);
  for (int step = 0; step < 3; ++step) {
    ASSERT_EQ(PollWait(client, 100), PSGD_OK) << psgd_last_error();
    ASSERT_EQ(psgd_get(client, 0, weights.data(), kElements), PSGD_OK);
    for (size_t i = 0; i < kElements; ++i) {
      weights[i] -= 0.25f;
      wanted[i] -= 0.25f;
    }
    ASSERT_EQ(psgd_push_weights(client, 0, weights.data(), kElements), PSGD_OK);
    if (step == 2) {
      server.Drain();
      server.shard_delay_ms = 300;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    ASSERT_EQ(psgd_end_step(client, nullptr), PSGD_OK);
  }
  // The heartbeat tells that the run drains, in the course of the next steps.
  psgd_status status = PollWait(client, 1);
  for (int step = 3; step < 9 && status == PSGD_OK; ++step) {
    ASSERT_EQ(psgd_end_step(client, nullptr), PSGD_OK);
    status = PollWait(client, 1);
  }
  ASSERT_EQ(status, PSGD_SAVE) << psgd_last_error();
  const std::vector<char> state(3 << 20, 's');
  ASSERT_EQ(psgd_save_state(client, state.data(), state.size()), PSGD_OK);
  EXPECT_EQ(PollWait(client, 1), PSGD_OVER) << psgd_last_error();
  EXPECT_NEAR(server.Weights()[0], wanted[0], 1e-4);
  EXPECT_EQ(psgd_leave(client, 0, nullptr), PSGD_OK) << psgd_last_error();
}

TEST(Client, RowsAreTheDifferenceOfTheWholeTensor) {
  for (const char* compression : {"", "compression: {push: fp16, dense_below: 1}\n"}) {
    SmallServer server(compression);
    const psgd_client client = Joined(server);
    ASSERT_EQ(psgd_commit(client, kSamples, 1), PSGD_OK) << psgd_last_error();
    psgd_share share{.size = sizeof share};
    ASSERT_EQ(PollShare(client, 100, &share), PSGD_OK) << psgd_last_error();
    const int64_t rows[] = {0, 7, 99}, wrong[] = {7, 7}, high[] = {100};
    std::vector<float> values(30, 0.5f);
    EXPECT_EQ(psgd_push_rows(client, 0, rows, 3, values.data(), 29), PSGD_INVALID);
    EXPECT_EQ(psgd_push_rows(client, 0, rows, 2, values.data(), 30), PSGD_INVALID);
    EXPECT_EQ(psgd_push_rows(client, 1, rows, 3, values.data(), 30), PSGD_INVALID);
    EXPECT_EQ(psgd_push_rows(client, 0, wrong, 2, values.data(), 20), PSGD_INVALID);
    EXPECT_EQ(psgd_push_rows(client, 0, high, 1, values.data(), 10), PSGD_INVALID);
    EXPECT_THAT(psgd_last_error(), HasSubstr("row 100 of w, which has 100 rows"));
    values[15] = NAN;
    EXPECT_EQ(psgd_push_rows(client, 0, rows, 3, values.data(), 30), PSGD_DIVERGED);
    EXPECT_THAT(psgd_last_error(), HasSubstr("Row 7 of w is not finite"));
    values[15] = 0.25f;
    ASSERT_EQ(psgd_push_rows(client, 0, rows, 3, values.data(), 30), PSGD_OK) << psgd_last_error();
    ASSERT_EQ(psgd_end_step(client, nullptr), PSGD_OK);
    ASSERT_EQ(PollWait(client, 100), PSGD_OK);
    ASSERT_EQ(psgd_push_rows(client, 0, nullptr, 0, nullptr, 0), PSGD_OK) << psgd_last_error();
    ASSERT_EQ(psgd_end_step(client, nullptr), PSGD_OK);
    ASSERT_EQ(PollWait(client, 100), PSGD_OK);
    std::vector<float> weights(kElements);
    ASSERT_EQ(psgd_get(client, 0, weights.data(), kElements), PSGD_OK);
    for (size_t i = 0; i < kElements; ++i) {
      const bool changed = i < 10 || (i >= 70 && i < 80) || i >= 990;
      EXPECT_EQ(weights[i], i == 75 ? 0.25f : changed ? 0.5f : 1.0f) << i;
    }
    EXPECT_EQ(psgd_leave(client, 0, nullptr), PSGD_OK);
  }
}

// A program that calls anything at any time, with any arguments that are sound for C, is told what
// is wrong, and its client leaves as any other.
TEST(Client, AnyCallsInAnyOrderGiveAStatus) {
  std::set<psgd_status> seen;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    std::mt19937 draw(seed);
    const auto below = [&](uint32_t bound) { return static_cast<uint32_t>(draw() % bound); };
    SmallServer server(seed % 2 == 0 ? "" : "optimizer: {sgd: {learning_rate: 0.1}}\n");
    const psgd_client client = Joined(server);
    std::vector<float> values(2 * kElements, 0.5f);
    std::vector<uint32_t> indices(8);
    std::vector<int64_t> rows(8);
    std::vector<char> bytes(64);
    std::vector<int64_t> sides(9, 1);
    for (int call = 0; call < 600; ++call) {
      const uint32_t tensor = below(8) == 0 ? below(4) : 0;
      const size_t count = below(4) == 0 ? below(2 * kElements) : kElements;
      float* const floats = below(10) == 0 ? nullptr : values.data();
      values[below(kElements)] = below(40) == 0 ? NAN : 0.25f;
      size_t size = 0;
      int32_t place = 0;
      psgd_share share{.size = below(8) == 0 ? below(5000) : sizeof share};
      psgd_step step{};
      step.size = below(8) == 0 ? below(5000) : sizeof step;
      psgd_result result{};
      result.size = sizeof result;
      result.epoch = below(4);
      result.measures = below(100);
      psgd_timings timings{};
      timings.size = sizeof timings;
      for (int64_t& row : rows) row = below(120);
      if (below(2) == 0) std::ranges::sort(rows);
      psgd_status status = PSGD_OK;
      switch (below(call < 20 ? 21 : 19)) {
        case 0:
        case 1:
        case 2:
          status = psgd_next_share(client, static_cast<int32_t>(below(3)), &share);
          break;
        case 3:
        case 4:
        case 5:
          status = psgd_wait(client, static_cast<int32_t>(below(20)));
          break;
        case 6:
          status = psgd_get(client, tensor, floats, floats ? count : 0);
          break;
        case 7:
        case 8:
          status = psgd_push_weights(client, tensor, floats, count);
          break;
        case 9:
          status = below(2) == 0
                       ? psgd_push_gradient(client, tensor, floats, count)
                       : psgd_push_device_weights(client, tensor, floats, floats, count, nullptr);
          break;
        case 10:
          status = psgd_push_rows(client, tensor, rows.data(), below(9), floats, 10 * below(9));
          break;
        case 11:
        case 12:
        case 13:
          status = psgd_end_step(client, below(2) == 0 ? nullptr : &step);
          break;
        case 14:
          status = psgd_batch(client, below(12), indices.data(), below(9));
          break;
        case 15:
          status = psgd_report(client, &result);
          break;
        case 16:
          status = below(2) == 0 ? psgd_save_state(client, bytes.data(), below(65))
                                 : psgd_load_state(client, bytes.data(), below(65), &size);
          break;
        case 17:
          status = below(4) == 0   ? psgd_keep_state(client)
                   : below(2) == 0 ? psgd_get_place(client, tensor, &place)
                                   : psgd_get_timings(client, &timings);
          break;
        case 18: {
          for (int64_t* side = sides.data(); side < &sides[3]; ++side) *side = below(13) - 1;
          const std::string name = below(4) == 0 ? "w" : "x" + std::to_string(below(5));
          status = psgd_add_tensor(client, below(10) == 0 ? nullptr : name.c_str(),
                                   below(10) == 0 ? nullptr : sides.data(),
                                   static_cast<int32_t>(below(11)) - 1,
                                   static_cast<int32_t>(below(10)), floats);
          break;
        }
        default:
          status = psgd_commit(client, below(60), below(4));
      }
      seen.insert(status);
      if (status > PSGD_AGAIN) {
        ASSERT_STRNE(psgd_last_error(), "");
      }
      ASSERT_NE(status, PSGD_INTERNAL) << psgd_last_error();
    }
    const psgd_status left = psgd_leave(client, static_cast<int32_t>(below(2)), "enough");
    EXPECT_EQ(left, PSGD_OK) << psgd_last_error();
    EXPECT_EQ(psgd_wait(client, 0), PSGD_INVALID);
  }
  for (const psgd_status status : {PSGD_OK, PSGD_AGAIN, PSGD_INVALID, PSGD_STATE, PSGD_DIVERGED}) {
    EXPECT_TRUE(seen.contains(status)) << status;
  }
}

}  // namespace
}  // namespace psgd
