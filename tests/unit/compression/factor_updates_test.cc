#include "compression/low_rank/factor_updates.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compression/payload_bytes.h"
#include "tests/unit/compression/factors_of.h"

namespace psgd {
namespace {

class FactorUpdates : public testing::Test {
 protected:
  // Two updates: the first has two contributions, the second has one and weight decay.
  std::vector<FactorUpdate> Updates() const {
    std::vector<FactorUpdate> updates(2);
    updates[0].rate = 0.25f;
    updates[0].parts = {{0.5f, Bytes::CopyOf(first_.Payload(shapes_))},
                        {0.5f, Bytes::CopyOf(second_.Payload(shapes_))}};
    updates[1].rate = 0.125f;
    updates[1].decay = 0.01f;
    updates[1].parts = {{1, Bytes::CopyOf(second_.Payload(shapes_))}};
    for (FactorUpdate& update : updates) {
      for (FactorUpdate::Part& part : update.parts) part.worker = 1;
    }
    // Both parts look like the same push to their reader.
    for (FactorUpdate::Part* part : {&updates[0].parts[1], &updates[1].parts[0]}) {
      part->worker = 3;
      part->incarnation = 2;
      part->clock = 7;
    }
    return updates;
  }
  absl::Status Apply(ByteSpan payload, std::vector<std::vector<float>>* weights) const {
    const std::vector<std::byte> exact(payload.begin(), payload.end());
    std::vector<std::span<float>> spans(weights->begin(), weights->end());
    const auto own = [this](uint64_t clock) {
      return clock == 7 ? Bytes::CopyOf(second_.Payload(shapes_)) : Bytes();
    };
    return ApplyFactorUpdates(*codec_, exact, own, shapes_, spans);
  }
  std::vector<std::vector<float>> Weights() const {
    std::vector<std::vector<float>> weights;
    for (const SliceShape& shape : shapes_)
      weights.push_back(Gaussian(shape.elements, shape.offset));
    return weights;
  }

  const std::unique_ptr<Codec> codec_ = FactorsCodecOf();
  const FactorsOf first_{3, 20, 30, 1}, second_{4, 20, 30, 2};
  const std::vector<SliceShape> shapes_ = first_.Cut({250});
};

TEST_F(FactorUpdates, AreMadeAsTheShardMadeThem) {
  const std::vector<std::byte> payload = WriteFactorUpdates(Updates(), {});
  EXPECT_EQ(payload.size(), UpdateBytes(Updates(), {}));
  std::vector<std::vector<float>> weights = Weights(), expected = Weights();
  ASSERT_TRUE(Apply(payload, &weights).ok());
  for (size_t s = 0; s < shapes_.size(); ++s) {
    const std::vector<float> a = first_.Product(shapes_[s]), b = second_.Product(shapes_[s]);
    for (size_t i = 0; i < a.size(); ++i) {
      float& w = expected[s][i];
      w -= 0.25f * (0.5f * a[i] + 0.5f * b[i]);
      w -= 0.125f * (b[i] + 0.01f * w);
    }
  }
  EXPECT_EQ(weights, expected);
}

TEST_F(FactorUpdates, LeaveOutWhatTheirReaderPushed) {
  const UpdateReader author = {3, 2}, restarted = {3, 4};
  const std::vector<std::byte> all = WriteFactorUpdates(Updates(), {});
  const std::vector<std::byte> others = WriteFactorUpdates(Updates(), author);
  EXPECT_EQ(others.size(), UpdateBytes(Updates(), author));
  EXPECT_LT(others.size(), all.size() / 2);
  EXPECT_EQ(WriteFactorUpdates(Updates(), restarted), all);
  std::vector<std::vector<float>> weights = Weights(), expected = Weights();
  ASSERT_TRUE(Apply(others, &weights).ok());
  ASSERT_TRUE(Apply(all, &expected).ok());
  EXPECT_EQ(weights, expected);
  std::vector<FactorUpdate> lost = Updates();
  lost[1].parts[0].clock = 8;
  weights = Weights();
  EXPECT_TRUE(absl::IsInvalidArgument(Apply(WriteFactorUpdates(lost, author), &weights)));
  EXPECT_EQ(weights, Weights());
}

// Each contribution is a matrix of zeros in a few bytes; a worker must hold all those of an update.
TEST_F(FactorUpdates, OfMoreMatricesThanAWorkerHoldsAreRefused) {
  FactorsOf zeros(11, 20, 30, 1);  // 550 numbers, of 600 weights
  for (float& value : zeros.values) value = 0;
  const Bytes payload = Bytes::CopyOf(zeros.Payload(shapes_));
  ASSERT_LT(payload.size(), 40u);
  for (const size_t parts : {60, 80}) {
    std::vector<FactorUpdate> updates(1);
    updates[0].rate = 0.25f;
    updates[0].parts.assign(parts, {1, payload, 1, 0, 0});
    std::vector<std::vector<float>> weights = Weights();
    const absl::Status status = Apply(WriteFactorUpdates(updates, {}), &weights);
    EXPECT_EQ(status.code(),
              parts == 60 ? absl::StatusCode::kOk : absl::StatusCode::kResourceExhausted)
        << status;
    EXPECT_EQ(weights, Weights());
  }
}

TEST_F(FactorUpdates, AreRefusedAsAWhole) {
  const std::vector<std::byte> payload = WriteFactorUpdates(Updates(), {});
  std::vector<std::vector<float>> weights = Weights();
  for (size_t size = 0; size < payload.size(); ++size) {
    ASSERT_TRUE(absl::IsInvalidArgument(Apply(ByteSpan(payload).first(size), &weights))) << size;
  }
  std::vector<std::byte> changed(payload);
  changed.push_back(std::byte{0});
  EXPECT_TRUE(absl::IsInvalidArgument(Apply(changed, &weights)));
  for (size_t at : {4, 8, 16}) {  // rate, decay, scale
    changed = payload;
    StoreField(NAN, changed.data() + at);
    EXPECT_TRUE(absl::IsOutOfRange(Apply(changed, &weights))) << at;
  }
  for (size_t at : {0, 12, 20}) {  // numbers of updates and contributions, length of a payload
    for (uint32_t word : {0u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
      changed = payload;
      StoreField(word, changed.data() + at);
      EXPECT_FALSE(Apply(changed, &weights).ok()) << at << ", " << word;
    }
  }
  EXPECT_EQ(weights, Weights());
}

}  // namespace
}  // namespace psgd
