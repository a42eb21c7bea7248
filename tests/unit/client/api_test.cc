// libpsgd's C interface without a server: whatever the arguments, a call returns a status and says
// what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "include/psgd.h"

namespace {

using testing::HasSubstr;

TEST(ClientApi, HasTheVersionOfItsHeader) { EXPECT_EQ(psgd_abi_version(), PSGD_ABI_VERSION); }

TEST(ClientApi, AClientThatWasNeverMadeIsRefusedByEachCall) {
  for (const psgd_client client : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
    psgd_run run{.size = sizeof run};
    psgd_share share{.size = sizeof share};
    psgd_step step{.size = sizeof step};
    psgd_result result{.size = sizeof result};
    psgd_timings timings{.size = sizeof timings};
    const int64_t side = 1;
    float value = 0;
    uint32_t index = 0;
    EXPECT_EQ(psgd_get_run(client, &run), PSGD_INVALID);
    EXPECT_EQ(psgd_add_tensor(client, "w", &side, 1, 0, &value), PSGD_INVALID);
    EXPECT_EQ(psgd_commit(client, 1, 1), PSGD_INVALID);
    EXPECT_EQ(psgd_next_share(client, 0, &share), PSGD_INVALID);
    EXPECT_EQ(psgd_batch(client, 0, &index, 1), PSGD_INVALID);
    EXPECT_EQ(psgd_wait(client, 0), PSGD_INVALID);
    EXPECT_EQ(psgd_get(client, 0, &value, 1), PSGD_INVALID);
    EXPECT_EQ(psgd_push_weights(client, 0, &value, 1), PSGD_INVALID);
    EXPECT_EQ(psgd_push_gradient(client, 0, &value, 1), PSGD_INVALID);
    const int64_t row = 0;
    size_t size = 0;
    EXPECT_EQ(psgd_push_rows(client, 0, &row, 1, &value, 1), PSGD_INVALID);
    EXPECT_EQ(psgd_use_device(client, 0, 0), PSGD_INVALID);
    int32_t place = 0;
    EXPECT_EQ(psgd_get_place(client, 0, &place), PSGD_INVALID);
    EXPECT_EQ(psgd_push_device_weights(client, 0, &value, &value, 1, nullptr), PSGD_INVALID);
    EXPECT_EQ(psgd_push_device_gradient(client, 0, &value, nullptr, 1, nullptr), PSGD_INVALID);
    uint8_t sent = 0;
    EXPECT_EQ(psgd_get_sent(client, 0, &sent, 1), PSGD_INVALID);
    int32_t sends = 0;
    EXPECT_EQ(psgd_sends_elements(client, 0, &sends), PSGD_INVALID);
    EXPECT_EQ(psgd_keep_state(client), PSGD_INVALID);
    EXPECT_EQ(psgd_save_state(client, &value, sizeof value), PSGD_INVALID);
    EXPECT_EQ(psgd_load_state(client, &value, sizeof value, &size), PSGD_INVALID);
    EXPECT_EQ(psgd_end_step(client, &step), PSGD_INVALID);
    EXPECT_EQ(psgd_report(client, &result), PSGD_INVALID);
    EXPECT_EQ(psgd_note(client, "odd"), PSGD_INVALID);
    EXPECT_EQ(psgd_get_timings(client, &timings), PSGD_INVALID);
    EXPECT_EQ(psgd_leave(client, 0, nullptr), PSGD_INVALID);
    EXPECT_THAT(psgd_last_error(), HasSubstr("psgd_leave: there is no client"));
  }
}

TEST(ClientApi, NullPointersAndSizesOfOthersAreRefused) {
  psgd_client client = 7;
  psgd_join_options options{.size = sizeof options};
  EXPECT_EQ(psgd_join(nullptr, &client), PSGD_INVALID);
  EXPECT_THAT(psgd_last_error(), HasSubstr("options is a null pointer"));
  EXPECT_EQ(client, 0u);
  EXPECT_EQ(psgd_join(&options, nullptr), PSGD_INVALID);
  EXPECT_EQ(psgd_join(&options, &client), PSGD_INVALID);
  EXPECT_THAT(psgd_last_error(), HasSubstr("options->server is a null pointer"));
  for (const size_t size : {size_t{0}, size_t{1}, SIZE_MAX}) {
    options.size = size;
    EXPECT_EQ(psgd_join(&options, &client), PSGD_INVALID);
    EXPECT_THAT(psgd_last_error(), HasSubstr("set it to sizeof"));
  }
}

TEST(ClientApi, WrongOptionsAreNamed) {
  psgd_client client = 0;
  psgd_join_options options{.size = sizeof options, .server = "nowhere"};
  EXPECT_EQ(psgd_join(&options, &client), PSGD_INVALID);
  EXPECT_THAT(psgd_last_error(), HasSubstr("nowhere"));
  options.server = "127.0.0.1:1";
  options.name = "two words";
  EXPECT_EQ(psgd_join(&options, &client), PSGD_INVALID);
  EXPECT_THAT(psgd_last_error(), HasSubstr("two words"));
  options.name = nullptr;
  options.connect_ms = -1;
  EXPECT_EQ(psgd_join(&options, &client), PSGD_INVALID);
  options.connect_ms = 0;
  options.tls_dir = "/no/such/folder";
  EXPECT_NE(psgd_join(&options, &client), PSGD_OK);
  EXPECT_THAT(psgd_last_error(), HasSubstr("/no/such/folder"));
}

TEST(ClientApi, WithoutAServerAJoinEndsInTime) {
  psgd_client client = 0;
  const psgd_join_options options{
      .size = sizeof options, .server = "127.0.0.1:1", .connect_ms = 500};
  EXPECT_EQ(psgd_join(&options, &client), PSGD_UNAVAILABLE);
  EXPECT_THAT(psgd_last_error(), HasSubstr("no psgd server answers at 127.0.0.1:1"));
  EXPECT_EQ(client, 0u);
}

// Any handles, counts and null pointers. A server is not needed: no handle is of a client.
TEST(ClientApi, AnyArgumentsGiveAStatus) {
  std::mt19937_64 draw(1);
  float values[4] = {};
  uint32_t indices[4] = {};
  int64_t shape[4] = {1, 2, 3, 4};
  for (int i = 0; i < 20000; ++i) {
    const psgd_client client = draw() % 3 == 0 ? draw() % 4 : draw();
    float* const floats = draw() % 2 == 0 ? nullptr : values;
    const auto number = static_cast<uint32_t>(draw());
    const auto count = static_cast<size_t>(draw());
    EXPECT_NE(psgd_get(client, number, floats, count), PSGD_OK);
    EXPECT_NE(psgd_push_weights(client, number, floats, count), PSGD_OK);
    EXPECT_NE(psgd_push_gradient(client, number, floats, count), PSGD_OK);
    EXPECT_NE(psgd_batch(client, number, draw() % 2 == 0 ? nullptr : indices, count), PSGD_OK);
    EXPECT_NE(
        psgd_add_tensor(client, draw() % 2 == 0 ? nullptr : "w", draw() % 2 == 0 ? nullptr : shape,
                        static_cast<int32_t>(draw()), static_cast<int32_t>(draw()), floats),
        PSGD_OK);
    EXPECT_NE(psgd_push_rows(client, number, draw() % 2 == 0 ? nullptr : shape, count, floats,
                             static_cast<size_t>(draw())),
              PSGD_OK);
    EXPECT_NE(psgd_use_device(client, number, static_cast<int32_t>(draw())), PSGD_OK);
    EXPECT_NE(psgd_get_place(client, number, nullptr), PSGD_OK);
    EXPECT_NE(psgd_push_device_weights(client, number, floats, floats, count, nullptr), PSGD_OK);
    EXPECT_NE(psgd_push_device_gradient(client, number, floats, nullptr, count, nullptr), PSGD_OK);
    EXPECT_NE(psgd_save_state(client, floats, count), PSGD_OK);
    EXPECT_NE(psgd_load_state(client, floats, count, nullptr), PSGD_OK);
    EXPECT_NE(psgd_commit(client, draw(), number), PSGD_OK);
    EXPECT_NE(psgd_wait(client, 0), PSGD_OK);
    EXPECT_NE(psgd_next_share(client, 0, nullptr), PSGD_OK);
    EXPECT_NE(psgd_end_step(client, nullptr), PSGD_OK);
    EXPECT_NE(psgd_report(client, nullptr), PSGD_OK);
    EXPECT_NE(psgd_leave(client, static_cast<int32_t>(draw()), nullptr), PSGD_OK);
    ASSERT_STRNE(psgd_last_error(), "");
  }
}

}  // namespace
