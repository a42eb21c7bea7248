// Steps that a device replays give their own gradients, not those of the step before. With
// test-gpu.sh it is the first test on a GPU, because all that a run learns rests on it.
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "common/philox.h"
#include "engine/runtime/plugin.h"
#include "optimizers/optimizer.h"
#include "tests/folders.h"
#include "tests/unit/engine/network_fixture.h"

namespace psgd {
namespace {

using testing::MakeNetwork;
using testing::MakeProblem;
using testing::Problem;
using testing::ZooModel;

class CaptureTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto backend = LoadBackend(GetParam(), PluginDir(), {});
    if (!backend.ok()) GTEST_SKIP() << backend.status();
    backend_ = *std::move(backend);
  }

  std::unique_ptr<Backend> backend_;
};

// The upload before each replay takes milliseconds, so an event that is still that of the replay
// before shows old numbers.
TEST_P(CaptureTest, DownloadsAreThoseOfTheirReplay) {
  constexpr size_t kFloats = 6 << 20;
  constexpr size_t kFirst[] = {0, 3 << 20, (3 << 20) + 64, (5 << 20)};  // of the downloads
  constexpr size_t kParts = std::size(kFirst);
  const auto end = [&](size_t part) { return part + 1 < kParts ? kFirst[part + 1] : kFloats; };
  backend_->EnterThread();
  constexpr size_t kBytes = kFloats * sizeof(float);
  const auto memory = backend_->Allocate(kBytes).value();
  const auto source = backend_->AllocateHost(kBytes).value();
  const auto target = backend_->AllocateHost(kBytes).value();
  float* const device = static_cast<float*>(memory->data());
  const std::span<float> from(static_cast<float*>(source->data()), kFloats);
  const std::span<float> to(static_cast<float*>(target->data()), kFloats);
  std::vector<std::unique_ptr<Copy>> copies(kParts);
  const auto recording = backend_->Record([&]() -> absl::Status {
    for (size_t part = 0; part < kParts; ++part) {
      const size_t first = kFirst[part];
      PSGD_ASSIGN_OR_RETURN(
          copies[part],
          backend_->StartDownload(device + first, &to[first], (end(part) - first) * sizeof(float)));
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(recording.ok()) << recording.status();
  for (int replay = 1; replay <= 12; ++replay) {
    const float number = static_cast<float>(replay);
    std::ranges::fill(from, number);
    ASSERT_TRUE(backend_->Upload(from.data(), device, kBytes).ok());
    ASSERT_TRUE((*recording)->Replay().ok());
    for (size_t part = 0; part < kParts; ++part) {
      if (replay % 2 == 0) {
        ASSERT_TRUE(copies[part]->Wait().ok());
      } else {
        while (!copies[part]->Done()) {
        }
      }
      const size_t first = kFirst[part], last = end(part) - 1;
      ASSERT_EQ(to[first], number) << "part " << part << " is of an older replay";
      ASSERT_EQ(to[(first + last) / 2], number) << "part " << part;
      ASSERT_EQ(to[last], number) << "part " << part << " is of an older replay";
    }
  }
}

// The same through a network, with more gradients than one graph of launches takes.
TEST_P(CaptureTest, GradientsAreFinalWhenTheyAreAnnounced) {
  ModelConfig model = ZooModel("mlp");
  model.add_hidden(1500);
  model.add_hidden(1100);
  const Problem problem = MakeProblem({1, 16, 16, 4}, 4);
  const auto network =
      MakeNetwork(model, problem, {.backend = GetParam(), .plugin_dir = PluginDir()});
  ASSERT_NE(network, nullptr);
  const int count = network->spec().parameters_size();
  std::vector<std::vector<float>> before(static_cast<size_t>(count));
  for (uint64_t step = 0; step < 4; ++step) {
    for (int i = 0; i < count; ++i) {
      for (float& weight : network->parameter(i)) weight *= 1.25f;
    }
    network->InvalidateParameters();
    std::vector<std::vector<float>> announced(static_cast<size_t>(count));
    const auto keep = [&](int i) {
      announced[static_cast<size_t>(i)].assign(network->gradient(i).begin(),
                                               network->gradient(i).end());
    };
    const auto result = network->TrainStep(problem.input(), problem.labels, step, keep);
    ASSERT_TRUE(result.ok()) << result.status();
    for (int i = 0; i < count; ++i) {
      const auto index = static_cast<size_t>(i);
      EXPECT_TRUE(std::ranges::equal(announced[index], network->gradient(i))) << i;
      EXPECT_TRUE(announced[index] != before[index]) << "parameter " << i << ", step " << step;
    }
    before = std::move(announced);
  }
  EXPECT_TRUE(network->recorded().ok()) << network->recorded();
}

// Parameters of all sizes, more of them than one launch takes, aligned for packs or not.
TEST_P(CaptureTest, AnOptimizerUpdatesParametersAsOnTheHost) {
  using Kind = ElementUpdate::Kind;
  constexpr size_t kSizes[] = {1, 3, 4, 255, 4096, 4099, 9001}, kMost = 9004;
  constexpr size_t kParameters = 120, kArrays = 4;  // gradient, weights, two states
  constexpr size_t kBytes = kParameters * kArrays * kMost * sizeof(float);
  backend_->EnterThread();
  const auto memory = backend_->Allocate(kBytes).value();
  float* const device = static_cast<float*>(memory->data());
  std::vector<float> wanted(kBytes / sizeof(float));
  RandomStream random({1, 2}, 3);
  for (float& value : wanted) value = random.NextUnit();
  std::vector<float> got = wanted;
  ASSERT_TRUE(backend_->Upload(got.data(), device, kBytes).ok());

  std::vector<ParameterUpdate> updates;
  for (size_t p = 0; p < kParameters; ++p) {
    const size_t unaligned = p % 5 == 4;
    const auto at = [&](size_t array) { return (p * kArrays + array) * kMost + unaligned; };
    const auto kind = static_cast<Kind>(p / std::size(kSizes) % 7);
    const size_t states = kind == Kind::kAdam                        ? 2
                          : kind == Kind::kAdd || kind == Kind::kSgd ? 0
                                                                     : 1;
    ParameterUpdate& of = updates.emplace_back();
    of.size = kSizes[p % std::size(kSizes)];
    of.gradient = device + at(0);
    of.weights = device + at(1);
    for (size_t s = 0; s < states; ++s) of.states[s] = device + at(2 + s);
    of.update = {.kind = kind,
                 .rate = 0.01f,
                 .decay = p % 2 == 0 ? 0.1f : 0.0f,
                 .keep = 0.99f,
                 .momentum = 0.9f,
                 .epsilon = 1e-6f,
                 .beta1 = 0.9f,
                 .one_minus_beta1 = 0.1f,
                 .beta2 = 0.99f,
                 .one_minus_beta2 = 0.01f,
                 .inverse_root_correction = 1.1f};
  }
  for (const GradientBounds bounds :
       {GradientBounds{}, GradientBounds{.value = 0.75f}, GradientBounds{.norm = 10},
        GradientBounds{.value = 0.5f, .norm = 1e6}}) {
    SCOPED_TRACE(::testing::Message() << bounds.value << " " << bounds.norm);
    const auto host = [&](const float* there) {
      return &wanted[static_cast<size_t>(there - device)];
    };
    double squares = 0;
    for (const ParameterUpdate& of : updates) {
      for (size_t i = 0; i < of.size && of.update.kind != Kind::kAdd; ++i) {
        const double g = bounds.Bound(host(of.gradient)[i]);
        squares += g * g;
      }
    }
    const float scale = bounds.norm > 0 ? bounds.Scale(squares) : 1;
    EXPECT_EQ(scale < 1, bounds.norm == 10);
    for (const ParameterUpdate& of : updates) {
      float unused[2] = {};
      for (size_t i = 0; i < of.size; ++i) {
        const float g = host(of.gradient)[i];
        const auto state = [&](int s) {
          return of.states[s] != nullptr ? host(of.states[s]) + i : unused + s;
        };
        of.update.Apply(of.update.kind == Kind::kAdd ? g : bounds.Bound(g) * scale,
                        host(of.weights) + i, state(0), state(1));
      }
    }
    ASSERT_TRUE(backend_->Update(updates, bounds).ok());
    ASSERT_TRUE(backend_->Download(device, got.data(), kBytes).ok());
    EXPECT_TRUE(got == wanted);
  }
}

// Trains with muon. Inside the network are a wide, a tall and a square matrix.
class Muon {
 public:
  Muon() {
    OptimizerConfig config;
    config.mutable_muon()->set_momentum(0.9);
    optimizer_ = MakeOptimizer(config);
  }

  std::unique_ptr<Network> Make(Precision precision) const {
    ModelConfig model = ZooModel("mlp");
    for (const int width : {24, 72, 72}) model.add_hidden(width);
    return MakeNetwork(model, problem_,
                       {.backend = "cudnn", .precision = precision, .plugin_dir = PluginDir()});
  }
  void MakeGradients(Network* network, uint64_t number) const {
    const auto result = network->TrainStep(problem_.step_batch(), number, nullptr);
    ASSERT_TRUE(result.ok()) << result.status();
  }
  void StepOnDevice(Network* network, uint64_t number) const {
    MakeGradients(network, number);
    std::vector<ElementUpdate> updates;
    for (int i = 0; i < network->spec().parameters_size(); ++i) {
      updates.push_back(*optimizer_->ElementUpdateAt(Of(network, i, number)));
    }
    ASSERT_TRUE(network->UpdateParameters(updates, {}).ok());
    ASSERT_TRUE(network->FetchParameters().ok());
  }
  void StepOnHost(Network* network, int i, uint64_t number,
                  std::array<std::vector<float>, 2>* states) const {
    OptimizerBlock block;
    block.size = network->parameter(i).size();
    block.gradient = network->gradient(i).data();
    block.weights_in = block.weights_out = network->parameter(i).data();
    for (size_t s = 0; s < states->size(); ++s) {
      (*states)[s].resize(block.size);
      block.state_in[s] = block.state_out[s] = (*states)[s].data();
    }
    optimizer_->ApplyBlock(Of(network, i, number), block);
  }

 private:
  static OptimizerStep Of(Network* network, int i, uint64_t number) {
    OptimizerStep step = {.learning_rate = 0.02, .weight_decay = 0.1, .step = number};
    if (network->hidden_matrices()[static_cast<size_t>(i)]) {
      step.rows = static_cast<size_t>(network->spec().parameters(i).shape(0));
      step.columns = network->parameter(i).size() / step.rows;
    }
    return step;
  }

  const Problem problem_ = MakeProblem({1, 16, 16, 4}, 4);
  std::unique_ptr<Optimizer> optimizer_;
};

TEST_P(CaptureTest, MuonMovesMatricesAsOnTheHost) {
  const Muon muon;
  const auto device = muon.Make(Precision::kFp32), host = muon.Make(Precision::kFp32);
  ASSERT_TRUE(device != nullptr && host != nullptr);
  EXPECT_EQ(std::ranges::count(host->hidden_matrices(), true), 3);
  ASSERT_TRUE(device->KeepStates(2, /*orthogonal=*/true).ok());
  std::vector<std::array<std::vector<float>, 2>> states(
      static_cast<size_t>(host->spec().parameters_size()));
  for (uint64_t step = 1; step <= 3; ++step) {
    muon.StepOnDevice(device.get(), step);
    muon.MakeGradients(host.get(), step);
    for (int i = 0; i < host->spec().parameters_size(); ++i) {
      SCOPED_TRACE(host->spec().parameters(i).name());
      const auto index = static_cast<size_t>(i);
      muon.StepOnHost(host.get(), i, step, &states[index]);
      const std::span<float> weights = host->parameter(i);
      // The sums of products differ in their order.
      const double apart = host->hidden_matrices()[index] ? 1e-5 : 0;
      for (size_t k = 0; k < weights.size(); ++k) {
        ASSERT_NEAR(device->parameter(i)[k], weights[k], apart) << k;
      }
      for (size_t s = 0; s < 2; ++s) {
        std::vector<float> state(weights.size());
        ASSERT_TRUE(device->ReadState(static_cast<int>(s), i, state).ok());
        EXPECT_TRUE(state == states[index][s]) << s;
      }
      // So the next gradients are the device's.
      std::ranges::copy(device->parameter(i), weights.begin());
    }
    host->InvalidateParameters();
  }
}

TEST_P(CaptureTest, MuonRepeatsItsBits) {
  const Muon muon;
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    std::vector<float> weights[2];
    for (std::vector<float>& run : weights) {
      const auto network = muon.Make(precision);
      ASSERT_NE(network, nullptr);
      ASSERT_TRUE(network->KeepStates(2, /*orthogonal=*/true).ok());
      for (uint64_t step = 1; step <= 3; ++step) muon.StepOnDevice(network.get(), step);
      for (int i = 0; i < network->spec().parameters_size(); ++i) {
        run.insert(run.end(), network->parameter(i).begin(), network->parameter(i).end());
      }
    }
    EXPECT_TRUE(weights[0] == weights[1]);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CaptureTest, ::testing::Values("cudnn"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace psgd
