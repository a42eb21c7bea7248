// The device twins of codecs write the same bytes as the scalar twins on the host and leave the
// same residual. Their kernels run as loops on this host, and on a GPU if there is one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/plugin.h"
#include "compression/device_codec.h"
#include "compression/error_feedback.h"
#include "compression/sparse/sample_plan.h"
#include "compression/twin_options.h"
#include "tests/conformance/codec/codec_cases.h"
#include "tests/conformance/codec/emulated_codecs.h"
#include "tests/folders.h"

namespace psgd::codec_test {
namespace {

enum class Where { kForwards, kBackwards, kCuda };

std::string NameOf(Where where) {
  return where == Where::kForwards ? "host" : where == Where::kBackwards ? "backwards" : "cudnn";
}

absl::StatusOr<std::unique_ptr<DeviceCodecs>> MakeCodecs(Where where) {
  if (where != Where::kCuda) return MakeEmulatedCodecs(where == Where::kBackwards);
  PSGD_ASSIGN_OR_RETURN(void* const found,
                        FindInPlugin("cudnn", PluginDir(), "psgd_make_device_codecs"));
  absl::StatusOr<std::unique_ptr<DeviceCodecs>> made;
  if (!reinterpret_cast<MakeDeviceCodecsFunction>(found)(PluginInterface(), 0, &made)) {
    return absl::FailedPreconditionError("the plugin is of another build");
  }
  return made;
}

std::optional<TwinOptions> TwinOf(const CodecCase& codec, const SliceShape& shape,
                                  const ErrorFeedbackOptions& feedback) {
  return MakeTwinOptions(*Make(codec, CodecBackend::kScalar), shape, feedback);
}

std::vector<CodecCase> CasesWithTwins() {
  std::vector<CodecCase> cases = AllCases();
  std::erase_if(cases, [](const CodecCase& codec) { return !TwinOf(codec, ShapeOf(1), {}); });
  return cases;
}

// The input of a slice, step after step.
struct Steps {
  std::vector<std::vector<float>> gradients;  // of each step
  std::vector<float> weights;                 // for weight decay; may be empty
  ErrorFeedbackOptions feedback;
  uint64_t seed = 0;
  uint64_t first_step = 0;
  size_t before = 0;  // floats in memory before each gradient
};

class DeviceTwins : public ::testing::TestWithParam<std::tuple<Where, CodecCase>> {
 protected:
  void SetUp() override {
    codec_ = Make(std::get<1>(GetParam()), CodecBackend::kScalar);
    auto made = MakeCodecs(std::get<0>(GetParam()));
    if (!made.ok()) GTEST_SKIP() << made.status();
    device_ = *std::move(made);
  }

  std::optional<TwinOptions> TwinFor(const SliceShape& shape,
                                     const ErrorFeedbackOptions& feedback) const {
    return TwinOf(std::get<1>(GetParam()), shape, feedback);
  }

  void ExpectAgreement(const Steps& run) {
    const size_t elements = run.gradients[0].size();
    const SliceShape shape = ShapeOf(elements);
    ErrorFeedbackOptions feedback = run.feedback;
    feedback.backend = CodecBackend::kScalar;
    ErrorFeedback host(*codec_, shape, feedback);
    const auto twin = device_->NewEncoder(*TwinFor(shape, feedback));
    ASSERT_TRUE(twin.ok()) << twin.status();
    const PhiloxKey key = MakeKey(run.seed, RandomPurpose::kCodec);
    constexpr float kWeightDecay = 0.0625f;
    const auto weights = device_->Upload(run.weights).value();
    uint64_t step = run.first_step;
    for (const std::vector<float>& gradient : run.gradients) {
      std::vector<float> decayed(gradient);
      for (size_t i = 0; i < run.weights.size(); ++i) decayed[i] += kWeightDecay * run.weights[i];
      std::vector<std::byte> expected;
      host.Encode(decayed, key, step, &expected);

      std::vector<float> uploaded(run.before);
      uploaded.insert(uploaded.end(), gradient.begin(), gradient.end());
      const auto there = device_->Upload(uploaded).value();
      DeviceEncodeInput input;
      input.gradient = there->data() + run.before;
      if (!run.weights.empty()) input.weights = weights->data();
      input.weight_decay = kWeightDecay;
      input.key = key;
      input.step = step++;
      const absl::Status started = (*twin)->Start(input, nullptr);
      ASSERT_TRUE(started.ok()) << started;
      const auto payload = (*twin)->Finish();
      ASSERT_TRUE(payload.ok()) << payload.status();
      ASSERT_TRUE(std::ranges::equal(*payload, expected))
          << elements << " elements, step " << step << ": " << payload->size() << " and "
          << expected.size() << " bytes";
      const std::vector<float> left = host.CopyState(), left_there = (*twin)->CopyState().value();
      ASSERT_EQ(left.size(), left_there.size());
      for (size_t i = 0; i < left.size(); ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(left[i]), std::bit_cast<uint32_t>(left_there[i]))
            << left[i] << " and " << left_there[i] << " at " << i << " of " << elements;
      }
    }
  }

  std::unique_ptr<Codec> codec_;
  std::unique_ptr<DeviceCodecs> device_;
};

// Number of random tensors. PSGD_TENSORS sets more than host loops can do in a test's time.
uint64_t TensorsToTry() {
  const char* const named = std::getenv("PSGD_TENSORS");
  return named == nullptr ? 180 : std::strtoull(named, nullptr, 10);
}

TEST_P(DeviceTwins, AgreeOnRandomTensors) {
  constexpr int kSteps = 3;
  for (uint64_t seed = 0; seed < TensorsToTry() / kSteps; ++seed) {
    RandomStream stream(MakeKey(seed, RandomPurpose::kSynthetic), 1);
    const size_t elements = RandomLength(&stream);
    Steps run;
    run.seed = seed;
    run.feedback.accumulate = seed % 4 != 0;
    run.feedback.decay = seed % 5 == 0 ? 0.9f : 1;
    for (int step = 0; step < kSteps; ++step) {
      run.gradients.push_back(RandomTensor(elements, &stream));
    }
    // A sum of two huge numbers may not be finite.
    constexpr float kHuge = 1e37f;
    for (size_t i = 0; i < elements; ++i) {
      const bool huge = std::fabs(run.gradients[0][i]) > kHuge;
      for (int step = 1; step < kSteps; ++step) {
        float& value = run.gradients[step][i];
        value = huge ? 0 : std::clamp(value, -kHuge, kHuge);
      }
    }
    ASSERT_NO_FATAL_FAILURE(ExpectAgreement(run)) << "seed " << seed;
  }
}

TEST_P(DeviceTwins, AgreeWithWeightDecay) {
  RandomStream stream(MakeKey(1, RandomPurpose::kSynthetic), 2);
  for (size_t elements : {1, 1009, 20011}) {
    Steps run;
    run.first_step = 1000;  // any warm-up is over
    for (size_t i = 0; i < elements; ++i) run.weights.push_back(stream.NextUnit() - 0.5f);
    run.gradients.assign(2, std::vector<float>(elements));
    for (auto& gradient : run.gradients) {
      for (float& value : gradient) value = (stream.NextUnit() - 0.5f) * stream.NextUnit();
    }
    for (bool accumulate : {true, false}) {
      run.feedback.accumulate = accumulate;
      ASSERT_NO_FATAL_FAILURE(ExpectAgreement(run));
    }
  }
}

// Only runs of aligned elements are read at once.
TEST_P(DeviceTwins, AgreeOnUnalignedGradients) {
  RandomStream stream(MakeKey(1, RandomPurpose::kSynthetic), 9);
  for (size_t before : {1, 2, 4}) {
    Steps run;
    run.before = before;
    run.first_step = 1000;
    run.gradients.assign(2, std::vector<float>(9001));
    for (auto& gradient : run.gradients) {
      for (float& value : gradient) value = (stream.NextUnit() - 0.5f) * stream.NextUnit();
    }
    ASSERT_NO_FATAL_FAILURE(ExpectAgreement(run)) << before << " floats before";
  }
}

// Samples that guess well or badly: all values equal, few that differ, one huge value, ties in all
// blocks, and samples that see other values than the rest has.
TEST_P(DeviceTwins, AgreeOnLongTensors) {
  constexpr size_t kElements = 50021;
  RandomStream stream(MakeKey(1, RandomPurpose::kSynthetic), 3);
  const SamplePlan plan = PlanSample(kElements, 1, false);
  for (int kind = 0; kind < 8; ++kind) {
    Steps run;
    run.first_step = kind == 3 ? 60 : 1000;  // within a warm-up, or after it
    std::vector<float> gradient(kElements, kind == 0 ? 0.0f : 0.25f);
    if (kind == 1) {
      for (size_t i = 0; i < 37; ++i) gradient[i * 1000 + 5] = static_cast<float>(i) - 11;
    }
    if (kind == 2) gradient[777] = -3e38f;
    if (kind >= 3) {
      for (float& value : gradient)
        value = std::ldexp(stream.NextUnit() - 0.5f, stream.NextBelow(9));
    }
    if (kind == 4) {
      for (float& value : gradient) value = std::round(value / 32);
    }
    if (kind >= 5) {
      const float factor = kind == 5 ? 1000.0f : kind == 6 ? 0.0f : 0.75f;
      for (size_t r = 0; r < plan.runs; ++r) {
        for (size_t k = 0; k < kSampleRun; ++k) gradient[plan.Begin(r) + k] *= factor;
      }
    }
    run.gradients = {gradient, gradient};
    if (kind == 2) run.gradients[1][777] = 0;
    ASSERT_NO_FATAL_FAILURE(ExpectAgreement(run)) << "kind " << kind;
  }
}

TEST_P(DeviceTwins, AgreeOnTheLargestSlice) {
  if (std::get<0>(GetParam()) == Where::kBackwards) GTEST_SKIP() << "once on a host is enough";
  Steps run;
  run.first_step = 1000;
  RandomStream stream(MakeKey(1, RandomPurpose::kSynthetic), 4);
  std::vector<float>& gradient = run.gradients.emplace_back(size_t{1} << 20);
  for (float& value : gradient) value = (stream.NextUnit() - 0.5f) * stream.NextUnit();
  ExpectAgreement(run);
}

// An encoder goes on from another's saved state, even if the other kept less.
TEST_P(DeviceTwins, GoOnFromSavedState) {
  constexpr size_t kElements = 3001;
  const SliceShape shape = ShapeOf(kElements);
  RandomStream stream(MakeKey(1, RandomPurpose::kSynthetic), 5);
  std::vector<float> gradient(kElements);
  for (float& value : gradient) value = stream.NextUnit() - 0.5f;
  const auto there = device_->Upload(gradient).value();
  const auto step = [&](DeviceEncoder& encoder, uint64_t number) {
    DeviceEncodeInput input;
    input.gradient = there->data();
    input.step = number;
    EXPECT_TRUE(encoder.Start(input, nullptr).ok());
    const ByteSpan payload = encoder.Finish().value();
    return std::vector<std::byte>(payload.begin(), payload.end());
  };
  const auto first = device_->NewEncoder(*TwinFor(shape, {})).value();
  const auto second = device_->NewEncoder(*TwinFor(shape, {})).value();
  step(*first, 1);
  const std::vector<float> saved = first->CopyState().value();
  ASSERT_TRUE(second->LoadState(saved).ok());
  EXPECT_EQ(step(*second, 2), step(*first, 2));
  EXPECT_EQ(second->CopyState().value(), first->CopyState().value());
  const std::vector<float> residual(kElements, 1.0f);
  ASSERT_TRUE(second->LoadState(residual).ok());
  if (codec_->keeps_residual()) {
    EXPECT_EQ(second->CopyState().value()[7], 1.0f);
  }
}

// Another codec takes over the residual and gives it back. Other state of the encoder is lost.
TEST_P(DeviceTwins, LeaveWhatIsLeftToAnotherCodec) {
  if (!codec_->keeps_residual() && !codec_->lossless()) {
    GTEST_SKIP() << "no other codec goes on from it: compression.push: auto refuses it";
  }
  constexpr size_t kElements = 3001;
  const SliceShape shape = ShapeOf(kElements);
  CodecConfig topk;
  topk.mutable_topk()->set_density(0.05);
  const auto other = MakeCodec(topk, {.backend = CodecBackend::kScalar}).value();
  const ErrorFeedbackOptions feedback = {.decay = 0.75f, .backend = CodecBackend::kScalar};
  ErrorFeedback host(*codec_, shape, feedback);
  const auto twin = device_->NewEncoder(*TwinFor(shape, feedback)).value();
  RandomStream stream(MakeKey(1, RandomPurpose::kSynthetic), 6);
  for (uint64_t step = 1; step <= 7; ++step) {
    if (step == 3) {
      host.Use(*other);
      ASSERT_TRUE(twin->Use(*MakeTwinOptions(*other, shape, feedback)).ok());
    }
    if (step == 5) {
      host.Use(*codec_);
      ASSERT_TRUE(twin->Use(*TwinFor(shape, feedback)).ok());
    }
    std::vector<float> gradient(kElements);
    for (float& value : gradient) value = stream.NextUnit() - 0.5f;
    std::vector<std::byte> expected;
    host.Encode(gradient, {}, step, &expected);
    const auto there = device_->Upload(gradient).value();
    DeviceEncodeInput input;
    input.gradient = there->data();
    input.step = step;
    input.timed = step % 2 == 0;
    ASSERT_TRUE(twin->Start(input, nullptr).ok());
    EXPECT_TRUE(std::ranges::equal(twin->Finish().value(), expected)) << "step " << step;
    EXPECT_EQ(twin->CopyState().value(), host.CopyState()) << "step " << step;
    EXPECT_NEAR(twin->SquaredNorm().value(), host.SquaredNorm(), 1e-9 * host.SquaredNorm());
    if (input.timed) {
      EXPECT_GT(twin->Seconds().value(), 0);
    }
  }
}

// A gradient that is not finite comes to the host unchanged and leaves no trace.
TEST_P(DeviceTwins, SendWhatIsNotFiniteAsItIs) {
  constexpr float kWeightDecay = 0.0625f;
  const ErrorFeedbackOptions feedback = {.backend = CodecBackend::kScalar};
  for (const size_t elements : {1, 70, 9001}) {
    const SliceShape shape = ShapeOf(elements);
    ErrorFeedback host(*codec_, shape, feedback);
    const auto twin = device_->NewEncoder(*TwinFor(shape, feedback)).value();
    RandomStream stream(MakeKey(elements, RandomPurpose::kSynthetic), 7);
    std::vector<float> weights(elements);
    for (float& value : weights) value = stream.NextUnit();
    const auto weights_there = device_->Upload(weights).value();
    for (uint64_t step = 1; step <= 7; ++step) {
      std::vector<float> gradient(elements), decayed(elements);
      for (float& value : gradient) value = stream.NextUnit() - 0.5f;
      const bool bad = step % 2 == 0;
      if (bad) {
        gradient[stream.NextBelow(static_cast<uint32_t>(elements))] = step == 2   ? NAN
                                                                      : step == 4 ? INFINITY
                                                                                  : -INFINITY;
      }
      for (size_t i = 0; i < elements; ++i) decayed[i] = gradient[i] + kWeightDecay * weights[i];
      std::vector<std::byte> expected;
      if (bad) {
        expected.assign(AsBytes(decayed).begin(), AsBytes(decayed).end());
      } else {
        host.Encode(decayed, {}, step, &expected);
      }
      const auto there = device_->Upload(gradient).value();
      DeviceEncodeInput input;
      input.gradient = there->data();
      input.weights = weights_there->data();
      input.weight_decay = kWeightDecay;
      input.step = step;
      ASSERT_TRUE(twin->Start(input, nullptr).ok());
      const auto payload = twin->Finish();
      ASSERT_TRUE(payload.ok()) << payload.status();
      EXPECT_EQ(twin->raw(), bad);
      EXPECT_TRUE(std::ranges::equal(*payload, expected)) << elements << ", step " << step;
      EXPECT_EQ(twin->CopyState().value(), host.CopyState()) << elements << ", step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllCodecs, DeviceTwins,
                         ::testing::Combine(::testing::Values(Where::kForwards, Where::kBackwards,
                                                              Where::kCuda),
                                            ::testing::ValuesIn(CasesWithTwins())),
                         [](const auto& info) {
                           return NameOf(std::get<0>(info.param)) + "_" +
                                  std::get<1>(info.param).name;
                         });

class DeviceGroups : public ::testing::TestWithParam<Where> {};

// Slices of all codecs and of very different lengths start before the first finishes. Some
// gradients are not finite.
TEST_P(DeviceGroups, MakeThePayloadsOfSingleSlices) {
  auto made = MakeCodecs(GetParam());
  if (!made.ok()) GTEST_SKIP() << made.status();
  const std::unique_ptr<DeviceCodecs> device = *std::move(made);
  struct Slice {
    std::string name;
    std::unique_ptr<Codec> codec;
    std::unique_ptr<ErrorFeedback> host;
    std::unique_ptr<DeviceEncoder> twin;
    std::unique_ptr<DeviceArray> there;
    std::vector<float> gradient;
    std::vector<std::byte> expected;
    PhiloxKey key;
  };
  const ErrorFeedbackOptions feedback = {.backend = CodecBackend::kScalar};
  std::vector<Slice> slices;
  for (size_t elements : {1, 5003, 0, 40, 20000, 777, 2}) {
    for (const CodecCase& codec : CasesWithTwins()) {
      const SliceShape shape = ShapeOf(elements);
      Slice slice;
      slice.name = absl::StrCat(codec.name, " of ", elements);
      slice.codec = Make(codec, CodecBackend::kScalar);
      slice.host = std::make_unique<ErrorFeedback>(*slice.codec, shape, feedback);
      slice.twin = device->NewEncoder(*TwinOf(codec, shape, feedback)).value();
      slice.gradient.resize(elements);
      slice.key = MakeKey(slices.size(), RandomPurpose::kCodec);
      slices.push_back(std::move(slice));
    }
  }
  RandomStream stream(MakeKey(1, RandomPurpose::kSynthetic), 8);
  for (uint64_t step = 1; step <= 4; ++step) {
    for (size_t s = 0; s < slices.size(); ++s) {
      Slice& slice = slices[s];
      for (float& value : slice.gradient) value = (stream.NextUnit() - 0.5f) * stream.NextUnit();
      const bool bad = step == 2 && s % 3 == 0 && !slice.gradient.empty();
      if (bad) slice.gradient[slice.gradient.size() / 2] = s % 2 == 0 ? NAN : -INFINITY;
      slice.expected.clear();
      if (bad) {
        const ByteSpan bytes = AsBytes(slice.gradient);
        slice.expected.assign(bytes.begin(), bytes.end());
      } else {
        slice.host->Encode(slice.gradient, slice.key, step, &slice.expected);
      }
      slice.there = device->Upload(slice.gradient).value();
      DeviceEncodeInput input;
      input.gradient = slice.there->data();
      input.key = slice.key;
      input.step = step;
      input.timed = step == 3 && s % 2 == 0;
      ASSERT_TRUE(slice.twin->Start(input, nullptr).ok());
    }
    for (size_t s = slices.size(); s-- > 0;) {
      Slice& slice = slices[s];
      const auto payload = slice.twin->Finish();
      ASSERT_TRUE(payload.ok()) << payload.status();
      EXPECT_TRUE(std::ranges::equal(*payload, slice.expected)) << slice.name << ", step " << step;
      EXPECT_EQ(slice.twin->CopyState().value(), slice.host->CopyState())
          << slice.name << ", step " << step;
      if (step == 3 && s % 2 == 0) {
        EXPECT_GE(slice.twin->Seconds().value(), 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceGroups,
                         ::testing::Values(Where::kForwards, Where::kBackwards, Where::kCuda),
                         [](const auto& info) { return NameOf(info.param); });

TEST(DeviceCodecsPlugin, RefusesAProgramOfAnotherBuild) {
  const auto found = FindInPlugin("cudnn", PluginDir(), "psgd_make_device_codecs");
  if (!found.ok()) GTEST_SKIP() << found.status();
  absl::StatusOr<std::unique_ptr<DeviceCodecs>> made = absl::UnknownError("untouched");
  EXPECT_FALSE(reinterpret_cast<MakeDeviceCodecsFunction>(*found)(12345, 0, &made));
  EXPECT_EQ(made.status().message(), "untouched");
}

TEST(DeviceCodecsPlugin, SaysThatThereIsNoDevice) {
  const absl::Status status = MakeCodecs(Where::kCuda).status();
  if (status.ok() || absl::IsNotFound(status)) GTEST_SKIP() << "there is one, or no plugin";
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

// docs/compression.md says the same.
TEST(DeviceTwinsTable, HasAllCodecsButFactors) {
  std::vector<std::string> without;
  for (const CodecConfig& config : DefaultCodecs()) {
    const std::string name(MakeCodec(config).value()->name());
    if (!TwinOf({name, config}, ShapeOf(1), {})) without.push_back(name);
  }
  EXPECT_THAT(without, ::testing::ElementsAre("factors"));
}

}  // namespace
}  // namespace psgd::codec_test
