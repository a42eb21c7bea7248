// The GPU engine on a device with limits and faults.
#include "engine/runtime/network.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/plugin.h"
#include "engine/graph/recompute.h"
#include "engine/ops/rules.h"
#include "engine/runtime/memory_report.h"
#include "engine/runtime/plugin.h"
#include "engine/runtime/replicas.h"
#include "tests/fakes/emulated_cuda/settings.h"
#include "tests/folders.h"
#include "tests/unit/engine/graph_runner.h"
#include "tests/unit/engine/network_fixture.h"

namespace psgd {
namespace {

using emulated::Engine;
using emulated::Settings;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsNan;
using testing::MakeProblem;
using ::testing::Not;
using testing::Problem;
using testing::ZooModel;

constexpr char kEmulatedName[] = "emulated";
constexpr int64_t kMebibyte = int64_t{1} << 20;

class EmulatedDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto found = FindInPlugin("cudnn", options_.plugin_dir, "psgd_emulated_settings");
    ASSERT_TRUE(found.ok()) << found.status();
    settings_ = reinterpret_cast<emulated::SettingsFunction>(*found)();
    before_ = *settings_;
  }
  void TearDown() override { *settings_ = before_; }

  // Each test uses its own batch, because the process remembers measured convolutions.
  absl::Status TrainOn(int batch, const char* model = "cnn") {
    const Problem problem = MakeProblem({1, 16, 16, 4}, batch);
    auto network = Network::Create(ZooModel(model), problem.shape, batch, options_);
    PSGD_RETURN_IF_ERROR(network.status());
    for (int i = 0; i < (*network)->spec().parameters_size(); ++i) {
      FillInitial((*network)->spec().parameters(i), 1, i, 0, (*network)->parameter(i));
    }
    (*network)->InvalidateParameters();
    return (*network)->TrainStep(problem.input(), problem.labels, 0, nullptr).status();
  }

  NetworkOptions options_ = {.backend = "cudnn", .plugin_dir = FakeDir("emulated_cuda")};
  Settings* settings_ = nullptr;
  Settings before_;
};

TEST_F(EmulatedDeviceTest, MemoryThatWasNotThereIsNotMissedLater) {
  settings_->memory = 20 * kMebibyte;
  EXPECT_THAT(TrainOn(2).ToString(), HasSubstr("cudaMalloc: out of memory"));
  *settings_ = before_;
  auto backend = LoadBackend("cudnn", options_.plugin_dir, {});
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_TRUE(absl::IsResourceExhausted((*backend)->Allocate(before_.memory).status()));
  EXPECT_TRUE((*backend)->BeginRun({}).ok());
  EXPECT_TRUE(absl::IsResourceExhausted((*backend)->AllocateHost(before_.memory).status()));
  EXPECT_TRUE((*backend)->BeginRun({}).ok());
  EXPECT_TRUE(TrainOn(2).ok());
}

TEST_F(EmulatedDeviceTest, AWorkspaceThatDoesNotFitLeavesTheNextEngine) {
  settings_->memory = 200 * kMebibyte;
  settings_->engines = {Engine{.workspace = 500 * kMebibyte}, Engine{.workspace = 1000}};
  const absl::Status trained = TrainOn(3);
  EXPECT_TRUE(trained.ok()) << trained;
}

// Muon's scratch memory counts, so a device that lacks it leaves the steps to the host.
TEST_F(EmulatedDeviceTest, StatesAndScratchMemoryNeedRoom) {
  ModelConfig model = ZooModel("mlp");
  for (int i = 0; i < 2; ++i) model.add_hidden(2048);  // takes 48 MiB of scratch memory
  const auto keep = [&](bool orthogonal) {
    const auto network = Network::Create(model, {1, 16, 16, 4}, 2, options_);
    return network.ok() ? (*network)->KeepStates(2, orthogonal) : network.status();
  };
  settings_->memory = 320 * kMebibyte;
  while (settings_->memory < before_.memory && absl::IsResourceExhausted(keep(false))) {
    settings_->memory += 32 * kMebibyte;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(keep(true)));
  settings_->memory += 48 * kMebibyte;
  EXPECT_TRUE(keep(true).ok());
}

// A lack of memory is an error, because a smaller batch is faster than another kernel.
TEST_F(EmulatedDeviceTest, AWorkspaceThatFitsNowhereIsALackOfMemory) {
  settings_->memory = 200 * kMebibyte;
  settings_->engines = {Engine{.workspace = 500 * kMebibyte},
                        Engine{.note = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}};
  EXPECT_THAT(TrainOn(4).ToString(), HasSubstr("500 MiB wanted"));
}

// No network fails because cuDNN refuses a convolution. (The emulation refuses some of those of
// op_cases.)
TEST_F(EmulatedDeviceTest, WhereNoEngineIsLeftOurOwnKernelConvolves) {
  const Problem problem = MakeProblem({1, 16, 16, 4}, 2);
  const auto reference = testing::MakeNetwork(ZooModel("lenet5"), problem, testing::kReference);
  const double expected = testing::Descend(reference.get(), problem, 0, 0);
  for (const Engine& engine : {Engine{.workspace = 5000 * kMebibyte}, Engine{.plans = false},
                               Engine{.note = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}}) {
    settings_->engines = {engine};
    settings_->convolutions = 0;
    const auto network = testing::MakeNetwork(ZooModel("lenet5"), problem, options_);
    ASSERT_NE(network, nullptr);
    EXPECT_NEAR(testing::Descend(network.get(), problem, 0, 0), expected, 1e-5 * expected);
    for (int i = 0; i < network->spec().parameters_size(); ++i) {
      double apart = 0, length = 0;
      for (size_t k = 0; k < network->gradient(i).size(); ++k) {
        apart += std::pow(network->gradient(i)[k] - reference->gradient(i)[k], 2);
        length += std::pow(reference->gradient(i)[k], 2);
      }
      EXPECT_LE(apart, 1e-9 * length) << "parameter " << i;
    }
    EXPECT_EQ(settings_->convolutions, 0u);
  }
  settings_->engines = {};
  EXPECT_TRUE(PlanMemory(ZooModel("cnn"), MakeProblem().shape, 6, options_).ok());
}

TEST_F(EmulatedDeviceTest, ADeviceThatIsTooOldIsToldWhatToDo) {
  settings_->capability = 70;
  EXPECT_THAT(LoadBackend("cudnn", options_.plugin_dir, {}).status().ToString(),
              AllOf(HasSubstr("emulated has compute capability 7.0; this build has 7.5 and up"),
                    HasSubstr("build with a CUDA 12 toolkit")));
  settings_->capability = 75;
  EXPECT_TRUE(LoadBackend("cudnn", options_.plugin_dir, {}).ok());
}

TEST_F(EmulatedDeviceTest, SumsOf16BitProductsHaveMoreBits) {
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    options_.precision = precision;
    EXPECT_TRUE(TrainOn(2).ok());
  }
  EXPECT_EQ(settings_->sums_in_16_bits, 0u);
}

// cuBLAS may lack a product that adds a bias or a residual, or sums the gradient of a bias. Or it
// adds only to the old product.
TEST_F(EmulatedDeviceTest, BiasesAndResidualsNeedNoFusedProduct) {
  const Problem problem = testing::MakePairProblem();
  std::vector<float> gradients[3];
  for (const int fuses : {0, 1, 2}) {
    settings_->fuses_products = fuses > 0;
    settings_->adds_elsewhere = fuses > 1;
    const uint64_t before = settings_->fused_products;
    const auto network =
        testing::MakeNetwork(testing::SequenceModel("transformer"), problem, options_);
    ASSERT_NE(network, nullptr);
    ASSERT_TRUE(network->TrainStep(problem.input(), problem.labels, 0, nullptr).ok());
    for (int i = 0; i < network->spec().parameters_size(); ++i) {
      const auto gradient = network->gradient(i);
      gradients[fuses].insert(gradients[fuses].end(), gradient.begin(), gradient.end());
    }
    EXPECT_EQ(settings_->fused_products > before, fuses > 0);
  }
  for (const int fuses : {1, 2}) {
    EXPECT_THAT(gradients[fuses], ::testing::Pointwise(::testing::FloatNear(1e-6f), gradients[0]));
  }
}

// No cut divides an attention, or a product from the sum that it is added to. Where cuDNN's
// gradients are refused, as on 10.0, the first forward pass is not cuDNN's either.
TEST_F(EmulatedDeviceTest, NetworksThatComputeAgainKeepTheirBits) {
  options_.precision = Precision::kBf16;
  for (const int capability : {90, 100}) {
    settings_->capability = capability;
    for (const auto& [name, problem] :
         {std::pair("gpt", testing::MakeTokenProblem(12, 11, 2)),
          std::pair("transformer", testing::MakePairProblem(6, 11, 2)),
          // cuDNN has no gradients of one key, which the encoder's attention has.
          std::pair("transformer", testing::MakePairProblem(1, 11, 2))}) {
      std::vector<float> expected;
      for (const int segments : {0, 3, 7, kRecomputeAuto}) {
        ModelConfig model = testing::SequenceModel(name);
        model.set_recompute(segments);
        const auto network = testing::MakeNetwork(model, problem, options_);
        ASSERT_NE(network, nullptr);
        ASSERT_TRUE(network->TrainStep(problem.input(), problem.labels, 0, nullptr).ok());
        std::vector<float> gradients;
        for (int i = 0; i < network->spec().parameters_size(); ++i) {
          const auto gradient = network->gradient(i);
          gradients.insert(gradients.end(), gradient.begin(), gradient.end());
        }
        if (segments == 0) expected = gradients;
        EXPECT_EQ(gradients, expected) << name << " on " << capability << " in " << segments;
      }
    }
  }
}

// Each call makes its device the thread's, or CUDA would refuse its kernels and events.
TEST_F(EmulatedDeviceTest, NetworksOnTwoDevicesTakeTurnsInAThread) {
  const Problem problem = MakeProblem({1, 16, 16, 4}, 2);
  std::vector<std::unique_ptr<Network>> networks;
  for (const int device : {0, 1}) {
    options_.device = device;
    networks.push_back(testing::MakeNetwork(ZooModel("cnn"), problem, options_));
    ASSERT_NE(networks.back(), nullptr);
  }
  for (uint64_t step = 0; step < 3; ++step) {
    std::vector<double> losses;
    for (const auto& network : networks) {
      const auto result = network->TrainStep(problem.input(), problem.labels, step, nullptr);
      ASSERT_TRUE(result.ok()) << result.status();
      losses.push_back(result->loss_sum);
    }
    EXPECT_EQ(losses[0], losses[1]);
  }
  for (const auto& network : networks) EXPECT_TRUE(network->recorded().ok()) << network->recorded();
}

// CUDA may leave an event that lies in a graph as the replay before left it; so does the emulation.
TEST_F(EmulatedDeviceTest, AMarkIsPassedWhenItsReplayIsThere) {
  const auto backend = LoadBackend("cudnn", options_.plugin_dir, {}).value();
  constexpr size_t kFloats = 1 << 16;
  const auto memory = backend->Allocate(kFloats * sizeof(float)).value();
  const auto source = backend->AllocateHost(kFloats * sizeof(float)).value();
  const std::span<float> from(static_cast<float*>(source->data()), kFloats);
  std::vector<std::unique_ptr<Mark>> marks;
  const auto recording = backend->Record([&]() -> absl::Status {
    for (int i = 0; i < 3; ++i) {
      PSGD_ASSIGN_OR_RETURN(marks.emplace_back(), backend->SetMark());
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(recording.ok()) << recording.status();
  for (int replay = 1; replay <= 20; ++replay) {
    std::ranges::fill(from, static_cast<float>(replay));
    ASSERT_TRUE(backend->Upload(from.data(), memory->data(), from.size_bytes()).ok());
    ASSERT_TRUE((*recording)->Replay().ok());
    for (const auto& mark : marks) {
      while (!mark->Passed()) {
      }
      // The device's memory is the host's here.
      EXPECT_EQ(static_cast<const float*>(memory->data())[kFloats - 1], replay);
    }
  }
}

// What a codec on the device takes when the mark of a gradient lets it.
TEST_F(EmulatedDeviceTest, AMarkInAGroupIsPassedWhenTheSumIsThere) {
  const Problem problem = MakeProblem({1, 16, 16, 4}, 4);
  ModelConfig model = ZooModel("mlp");
  for (const int width : {300, 200}) model.add_hidden(width);
  std::vector<NetworkOptions> options(2, options_);
  options[1].device = 1;
  const auto make = [&](ReduceOn reduce) {
    auto made = Replicas::Create(model, problem.shape, problem.batch, options, reduce).value();
    for (int i = 0; i < made->spec().parameters_size(); ++i) {
      FillInitial(made->spec().parameters(i), 1, i, 0, made->parameter(i));
    }
    return made;
  };
  const auto group = make(ReduceOn::kDevices), on_host = make(ReduceOn::kHost);
  const auto parameters = static_cast<size_t>(group->spec().parameters_size());
  std::vector<const float*> sums(parameters);
  group->device_network()->KeepOnDevice(std::vector<bool>(parameters, true),
                                        [&](int i, const DeviceGradient& gradient) {
                                          sums[static_cast<size_t>(i)] = gradient.gradient;
                                          return absl::OkStatus();
                                        });
  for (uint64_t step = 0; step < 6; ++step) {
    for (Replicas* each : {group.get(), on_host.get()}) {
      for (float& weight : each->parameter(0)) weight *= 1.25f;
      each->InvalidateParameters();
    }
    ASSERT_TRUE(on_host->TrainStep(problem.step_batch(), step, nullptr).ok());
    const auto check = [&](int i) {
      const std::span<const float> expected = on_host->gradient(i);
      for (size_t k = 0; k < expected.size(); ++k) {
        // The device's memory is the host's here.
        ASSERT_NEAR(sums[static_cast<size_t>(i)][k], expected[k], 1e-6) << i << ", step " << step;
      }
    };
    const BesideStep beside = {.meanwhile = [] { return true; }};  // until the mark is passed
    ASSERT_TRUE(group->TrainStep(problem.step_batch(), step, check, beside).ok());
  }
}

TEST_F(EmulatedDeviceTest, ReplicasShareWhatIsFreeOnTheirDevices) {
  const auto available = [&](const std::vector<int>& devices) {
    std::vector<NetworkOptions> replicas(devices.size(), options_);
    for (size_t i = 0; i < devices.size(); ++i) replicas[i].device = devices[i];
    return AvailableToEach(replicas).value();
  };
  const size_t alone = available({0});
  EXPECT_LT(alone, settings_->memory);  // the device's libraries take some memory
  EXPECT_EQ(available({0, 0, 0}), alone / 3);
  EXPECT_EQ(available({0, 1, 1}), alone / 2);
  EXPECT_EQ(available({0, 1}), alone);
}

TEST_F(EmulatedDeviceTest, EnginesThatRoundMoreThanIsPromisedAreRefused) {
  const size_t workspace = 900 * kMebibyte;  // part of the plan if the engine is
  const auto refused = [&](cudnnBackendNumericalNote_t note, Precision precision) {
    settings_->engines = {Engine{.note = note, .workspace = static_cast<int64_t>(workspace)}};
    NetworkOptions options = options_;
    options.precision = precision;
    return PlanMemory(ZooModel("cnn"), MakeProblem().shape, 6, options)->total() < workspace;
  };
  for (const auto note :
       {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_FFT,
        CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13}) {
    EXPECT_TRUE(refused(note, Precision::kFp32)) << "note " << note;
    EXPECT_FALSE(refused(note, Precision::kTf32)) << "note " << note;
    EXPECT_FALSE(refused(note, Precision::kBf16)) << "note " << note;
  }
  EXPECT_FALSE(refused(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, Precision::kFp32));
  for (const auto precision :
       {Precision::kFp32, Precision::kTf32, Precision::kBf16, Precision::kFp16}) {
    EXPECT_TRUE(refused(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, precision));
    EXPECT_TRUE(refused(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, precision));
    EXPECT_TRUE(refused(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, precision));
  }
}

// A diverged step must not look sound. op_values_test.cc checks the same for the reference.
TEST_F(EmulatedDeviceTest, NanGoesThroughReluAndMaxPool) {
  const double nan = std::nan("");
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    Graph graph;
    const auto external = [&](const char* name, Shape shape) {
      return graph.AddTensor({.name = name, .shape = std::move(shape), .external = true});
    };
    const TensorId x = external("x", {1, 1, 1, 6}), dy = external("dy", {1, 1, 1, 6});
    const TensorId y = AddRelu(&graph, "relu", x).value();
    const TensorId dx = external("dx", {1, 1, 1, 6});
    graph.AddNode("relu.backward", ReluBackward{}, {y, dy}, {dx});
    const Pool pool = {Pool::Kind::kMax, {{1, 3}, {1, 3}}};
    const TensorId largest = AddPool(&graph, "pool", pool, x).value();
    graph.tensors[y].external = graph.tensors[largest].external = true;
    BackendOptions options;
    options.precision = precision;
    testing::GraphRunner<float> runner(graph,
                                       LoadBackend("cudnn", options_.plugin_dir, options).value());
    runner.Set(x, {-1, nan, 2, 5, 4, 6});
    runner.Set(dy, {1, 2, 3, 4, 5, 6});
    runner.Run();
    EXPECT_THAT(runner.Get(y), ElementsAre(0, IsNan(), 2, 5, 4, 6));
    EXPECT_THAT(runner.Get(dx), ElementsAre(0, 2, 3, 4, 5, 6));
    EXPECT_THAT(runner.Get(largest), ElementsAre(IsNan(), 6));
  }
}

class EngineChoicesTest : public EmulatedDeviceTest {
 protected:
  void SetUp() override {
    EmulatedDeviceTest::SetUp();
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    EmulatedDeviceTest::TearDown();
  }
  std::string In(const std::string& name) const { return (folder_ / name).string(); }
  std::string Read(const std::string& name) const {
    std::ifstream file(In(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Trains a step and returns the number of convolutions that ran, measurements included.
  uint64_t RunTo(int batch, const std::string& choices) {
    options_.choices = choices;
    settings_->convolutions = 0;
    const absl::Status trained = TrainOn(batch);
    EXPECT_TRUE(trained.ok()) << trained;
    return settings_->convolutions;
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / absl::StrCat("psgd-choices-", getpid());
};

// A copy of the file stands for a later process, because a process remembers choices by file.
TEST_F(EngineChoicesTest, ALaterProcessMeasuresNothing) {
  const uint64_t measuring = RunTo(6, In("of a user/new folder/first"));
  const std::string kept = Read("of a user/new folder/first");
  EXPECT_THAT(kept, HasSubstr(absl::StrCat("8\t", kEmulatedName)));
  std::ofstream(In("second")) << kept;
  const uint64_t alone = RunTo(6, In("second"));
  EXPECT_GT(measuring, alone);
  EXPECT_EQ(Read("second"), kept) << "nothing is measured, so nothing is added";
  EXPECT_EQ(RunTo(6, In("of a user/new folder/first")), alone);
  // Other convolutions are measured and added.
  EXPECT_GT(RunTo(7, In("second")), alone);
  EXPECT_GT(Read("second").size(), kept.size());
}

TEST_F(EngineChoicesTest, WhatIsDamagedOrNoLongerThereIsMeasuredAgain) {
  const uint64_t measuring = RunTo(8, In("first"));
  const std::string kept = Read("first");
  const auto with_engine = [&](const std::string& engine) {
    std::string other;
    for (const absl::string_view line : absl::StrSplit(kept, '\n', absl::SkipEmpty())) {
      absl::StrAppend(&other, engine, std::string(line.substr(line.find('\t'))), "\n");
    }
    return other;
  };
  const std::string damaged[] = {
      with_engine("6"),    // cannot make a plan
      with_engine("0"),    // is not deterministic
      with_engine("900"),  // does not exist
      with_engine("-1"),  with_engine("x"),       with_engine("99999999999999999999"),
      "\n\n\t\n8\n\t8\n", std::string(100, '\0'), "8" + kept.substr(kept.find('\t'), 20)};
  for (size_t i = 0; i < std::size(damaged); ++i) {
    const std::string name = absl::StrCat("damaged-", i);
    std::ofstream(In(name)) << damaged[i];
    EXPECT_EQ(RunTo(8, In(name)), measuring) << damaged[i];
    EXPECT_THAT(Read(name), ::testing::EndsWith(kept)) << "and then known";
  }
}

// The free memory of the device differs from that of the measurement.
TEST_F(EngineChoicesTest, WhatFitsDependsOnTheMemoryThatIsLeft) {
  settings_->engines = {Engine{.workspace = 100 * kMebibyte}};
  const uint64_t alone = [&] {
    RunTo(10, In("empty"));
    return RunTo(10, In("empty"));
  }();
  settings_->engines.push_back(Engine{.workspace = 1000});
  const std::string kept = Read("empty");
  EXPECT_THAT(kept, HasSubstr("0\temulated"));
  settings_->memory = 90 * kMebibyte;
  EXPECT_GT(RunTo(10, In("empty")), alone) << "the first does not fit, so the second is measured";
  EXPECT_EQ(Read("empty"), kept) << "with more memory the first may be the better one";
}

// A launch takes the host longer than these engines take the device.
TEST_F(EngineChoicesTest, TheFasterOfTwoShortEnginesIsChosen) {
  settings_->engines = {Engine{.microseconds = 9}, Engine{.microseconds = 4},
                        Engine{.microseconds = 6}};
  RunTo(1, In("short"));
  EXPECT_THAT(Read("short"), AllOf(HasSubstr("1\temulated"), Not(HasSubstr("0\temulated")),
                                   Not(HasSubstr("2\temulated"))));
}

TEST_F(EngineChoicesTest, AnEngineThatIsHardlyFasterIsNotChosen) {
  settings_->engines = {Engine{.microseconds = 500}, Engine{.microseconds = 485},
                        Engine{.microseconds = 510}};
  RunTo(1, In("alike"));
  EXPECT_THAT(Read("alike"), AllOf(HasSubstr("0\temulated"), Not(HasSubstr("1\temulated"))));
}

// Otherwise measurements would slow each other down, and replicas might choose different engines.
TEST_F(EngineChoicesTest, ReplicasOfAProcessMeasureOnce) {
  const uint64_t measuring = RunTo(11, In("one"));
  const uint64_t alone = RunTo(11, In("one"));
  options_.choices = In("three");
  settings_->convolutions = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { EXPECT_TRUE(TrainOn(11).ok()); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(settings_->convolutions, measuring + 2 * alone);
  EXPECT_EQ(Read("three"), Read("one"));
}

TEST_F(EngineChoicesTest, AFileThatCannotBeWrittenIsAsNone) {
  const uint64_t measuring = RunTo(9, "/dev/null/choices");
  EXPECT_LT(RunTo(9, "/dev/null/choices"), measuring) << "this process remembers";
}

// This holds also for a batch that does not fit. A later step still measures.
TEST_F(EmulatedDeviceTest, APlanTakesNoMemoryAndRunsNothing) {
  settings_->memory = 64 * kMebibyte;
  settings_->convolutions = 0;
  const SampleShape shape = MakeProblem().shape;
  const auto large = PlanMemory(ZooModel("cnn"), shape, 4096, options_);
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_GT(large->total(), settings_->memory);
  EXPECT_TRUE(large->scratch_may_differ);
  const auto fits = LargestBatch(ZooModel("cnn"), shape, options_, settings_->memory / 2);
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_GT(*fits, 1);
  EXPECT_EQ(settings_->convolutions, 0u);
  EXPECT_FALSE(PlanMemory(ZooModel("mlp"), shape, 8, options_)->scratch_may_differ);
  settings_->memory = before_.memory;
  ASSERT_TRUE(PlanMemory(ZooModel("cnn"), shape, 5, options_).ok());
  ASSERT_TRUE(TrainOn(5).ok());
  const uint64_t measuring = std::exchange(settings_->convolutions, 0);
  ASSERT_TRUE(TrainOn(5).ok());
  EXPECT_GT(measuring, settings_->convolutions);
}

}  // namespace
}  // namespace psgd
