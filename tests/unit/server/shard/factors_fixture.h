// A shard with a matrix in two slices, a vector, and workers that push the matrix's gradient as its
// factors.
#pragma once

#include "tests/unit/compression/factors_of.h"
#include "tests/unit/server/shard/shard_fixture.h"

namespace psgd {

class FactorsShard : public testing::Test {
 protected:
  static constexpr size_t kRows = 20, kColumns = 30;
  static constexpr uint32_t kFirst = 250;  // elements of the first slice

  // Weights begin as 0, the learning rate is 1, pushes are summed.
  void Start(int64_t staleness, const Config& config = {}, double weight_decay = 0,
             uint32_t workers = 2, size_t open_bytes = kMostUnpacked) {
    shard_ = std::make_unique<ShardFixture>(
        FixtureOptions{.staleness = staleness, .elements = {4}, .open_bytes = open_bytes}, config);
    model_ = std::make_shared<ModelSpec>();
    placement_ = std::make_shared<Placement>();
    ParameterSpec* matrix = model_->add_parameters();
    matrix->set_name("fc.weight");
    matrix->add_shape(kRows);
    matrix->add_shape(kColumns);
    matrix->set_decay(true);
    ParameterSpec* vector = model_->add_parameters();
    vector->set_name("fc.bias");
    vector->add_shape(4);
    for (const SliceShape& shape : shapes_) {
      SliceSpec* slice = placement_->add_slices();
      slice->set_offset(shape.offset);
      slice->set_count(shape.elements);
    }
    SliceSpec* slice = placement_->add_slices();
    slice->set_parameter(1);
    slice->set_count(4);
    shard_->install().model = model_;
    shard_->install().placement = placement_;
    shard_->install().hyper.set_weight_decay(weight_decay);
    shard_->Start(workers);
  }

  static FactorsOf Factors(uint64_t stream) { return FactorsOf(3, kRows, kColumns, stream); }
  Message PushOf(uint32_t worker, uint64_t clock, const FactorsOf& factors) const {
    Message message = ShardFixture::PushOf(worker, clock, clock, {{0, {}}});
    AddFactors(factors, &message);
    return message;
  }
  // Replaces the message's parts.
  void AddFactors(const FactorsOf& factors, Message* message) const {
    Push* push = message->header.mutable_push();
    push->clear_parts();
    for (uint32_t slice : {0, 1}) {
      PushPart* part = push->add_parts();
      part->set_slice(slice);
      part->set_codec(CODEC_FACTORS);
      part->set_with_previous(slice == 1);
    }
    message->payloads = {Bytes::Adopt(factors.Payload(shapes_))};
  }

  // The payload of the message's first part, as a payload of the matrix. The message must outlive
  // the result.
  WaitingPayload WaitingOf(const Message& message) const {
    return {&message, {0, 0, {0, 1}, shapes_, {}}};
  }

  // The matrix's weights.
  std::vector<float> Weights() const {
    std::vector<float> weights = shard_->Weights(0);
    const std::vector<float> second = shard_->Weights(1);
    weights.insert(weights.end(), second.begin(), second.end());
    return weights;
  }

  const std::vector<SliceShape> shapes_ = FactorsOf(1, kRows, kColumns, 0).Cut({kFirst});
  std::shared_ptr<ModelSpec> model_;
  std::shared_ptr<Placement> placement_;
  std::unique_ptr<ShardFixture> shard_;
};

}  // namespace psgd
