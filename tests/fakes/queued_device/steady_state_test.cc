// The calls of a trainer to a device in a steady step: all work is on streams, and the host waits
// only for what it needs. Trainer and server are real; the device keeps a trace.
#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "tests/fakes/queued_device/asked.h"
#include "tests/folders.h"
#include "tests/system/run_test.h"
#include "train/dry_run.h"
#include "train/trainer.h"

namespace psgd {
namespace {

using queued::Asked;
using queued::kCodecs;
using queued::kDownloads;
using queued::kKernels;
using queued::kUploads;
using queued::kWeights;

constexpr int kDevice = 7;
// The first steps set up memory and are recorded.
constexpr size_t kFirstSteady = 4;
constexpr size_t kLeastSteady = 40;

std::vector<Asked> AskedOf(int device) {
  const std::string plugin = FakeDir("queued_device") + "/libpsgd_cudnn.so";
  void* const library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return {};
  const auto asked =
      reinterpret_cast<queued::AskedFunction>(dlsym(library, "psgd_queued_device_asked"));
  std::vector<Asked> all;
  if (asked != nullptr) asked(device, &all);
  dlclose(library);
  return all;
}

// Splits the calls by steps, from a step's first kernel to the next step's. So the calls that bring
// the next weights and batch follow the wait for a step's loss.
std::vector<std::vector<Asked>> Steps(const std::vector<Asked>& all) {
  std::vector<std::vector<Asked>> steps(1);
  for (const Asked& asked : all) {
    if (asked.kind == Asked::kRun) steps.emplace_back();
    steps.back().push_back(asked);
  }
  return steps;
}

size_t Count(const std::vector<Asked>& step, Asked::Kind kind, int stream) {
  return static_cast<size_t>(std::ranges::count_if(
      step, [=](const Asked& a) { return a.kind == kind && a.stream == stream; }));
}

size_t Find(const std::vector<Asked>& step, Asked::Kind kind, int stream) {
  return static_cast<size_t>(
      std::ranges::find_if(step,
                           [=](const Asked& a) { return a.kind == kind && a.stream == stream; }) -
      step.begin());
}

bool HostWaits(const Asked& asked) {
  return asked.kind == Asked::kWaitForEvent || asked.kind == Asked::kWaitForStream ||
         asked.kind == Asked::kWaitForAll;
}

// Whether the copy of the next batch starts before the host waits for this step.
bool BringsTheNextBatch(const std::vector<Asked>& step, int back) {
  return Find(step, Asked::kCopyIn, kUploads) < Find(step, Asked::kWaitForEvent, back);
}

class SteadyState : public RunTest {
 protected:
  static std::vector<std::string> Common() {
    return {"cluster.workers=1", "cluster.segment=1000", "train.epochs=1", "data.prefetch=64"};
  }
  // All steps and evaluations of a run.
  std::vector<std::vector<Asked>> TrainAll(const std::vector<std::string>& settings) {
    Process server(std::vector<std::string>{"ps-server", "--config", SmallConfig(), "--port", "0",
                                            "--run-dir", Path("run")} +
                   Sets(Common() + settings));
    TrainerOptions options;
    options.server = ServerOf(server);
    options.name = "queued";
    options.gpus = {{.index = kDevice, .name = "streams in host memory"}};
    options.plugin_dir = FakeDir("queued_device");
    // Gives the loader time to have batches ready.
    options.step_delay = Milliseconds(2);
    const absl::Status trained = Trainer(options).Run();
    EXPECT_TRUE(trained.ok()) << trained;
    EXPECT_EQ(server.Wait().code, 0) << server.Err();
    return Steps(AskedOf(kDevice));
  }
  // The steady steps of an epoch.
  std::vector<std::vector<Asked>> Train(const std::vector<std::string>& settings) {
    std::vector<std::vector<Asked>> steps = TrainAll(settings);
    // Removes evaluations, which bring back only their result.
    std::erase_if(steps, [](const auto& step) {
      return Count(step, Asked::kWaitForEvent, kDownloads) +
                 Count(step, Asked::kWaitForEvent, kCodecs) ==
             0;
    });
    EXPECT_GE(steps.size(), kFirstSteady + kLeastSteady);
    steps.erase(steps.begin(), steps.begin() + std::min(steps.size(), kFirstSteady));
    // Reports and a checkpoint follow the last step of the epoch.
    if (!steps.empty()) steps.pop_back();
    return steps;
  }

  // Without a needed wait between streams the weights would differ.
  void CheckWeights(const std::vector<std::string>& settings) {
    RunOnReference("reference", SmallConfig(), Common() + settings);
    EXPECT_FALSE(Weights("run").empty());
    EXPECT_TRUE(Weights("run") == Weights("reference"));
  }

  // `back`: the stream that brings a step's gradients or payloads to the host, which come with
  // `arrivals` events and `copies` copies.
  void Check(const std::vector<std::vector<Asked>>& steps, int back, size_t arrivals,
             size_t copies) {
    size_t ahead = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      SCOPED_TRACE(i);
      const std::vector<Asked>& step = steps[i];
      // The host never waits for the whole device, and frees no memory, which would wait.
      EXPECT_EQ(Count(step, Asked::kWaitForAll, 0), 0u);
      // The host waits for a whole stream once: at the end, for the loss.
      for (int stream : {kDownloads, kUploads, kCodecs, kWeights}) {
        EXPECT_EQ(Count(step, Asked::kWaitForStream, stream), 0u) << stream;
      }
      EXPECT_EQ(Count(step, Asked::kWaitForStream, kKernels), 1u);
      EXPECT_EQ(Count(step, Asked::kCopyOut, kKernels), 1u);
      const size_t end = Find(step, Asked::kWaitForStream, kKernels);
      size_t before = end - 1;
      while (before > 0 && step[before].stream == kWeights) --before;  // a call of another thread
      EXPECT_EQ(Find(step, Asked::kCopyOut, kKernels), before);
      // The host waits for the events of the gradients or groups of payloads that it sends, not for
      // the stream.
      for (int stream : {kDownloads, kCodecs}) {
        EXPECT_EQ(Count(step, Asked::kCopyOut, stream), stream == back ? copies : 0) << stream;
        EXPECT_EQ(Count(step, Asked::kWaitForEvent, stream), stream == back ? arrivals : 0)
            << stream;
      }
      // Before it writes a batch to pinned memory, the host also waits for the copy of the previous
      // batch. That copy started before this step's kernels and waits for none of them.
      EXPECT_EQ(Count(step, Asked::kWaitForEvent, kUploads), Count(step, Asked::kCopyIn, kUploads));
      EXPECT_EQ(Count(step, Asked::kWaitForEvent, kKernels), 0u);
      EXPECT_EQ(Count(step, Asked::kWaitForEvent, kWeights), 0u);
      std::set<uint64_t> set_here;
      bool waited = false;
      for (size_t k = 0; k < step.size(); ++k) {
        const Asked& asked = step[k];
        if (asked.kind == Asked::kSetEvent && asked.stream == kUploads)
          set_here.insert(asked.event);
        if (asked.kind == Asked::kWaitForEvent && asked.stream == kUploads) {
          EXPECT_FALSE(set_here.contains(asked.event));
          continue;
        }
        // From the first wait to the last the host launches nothing and brings only weights.
        EXPECT_FALSE(k > end && HostWaits(asked));
        if (waited && k < end && asked.stream != kWeights) {
          EXPECT_FALSE(asked.kind == Asked::kLaunch || asked.kind == Asked::kCopyIn)
              << asked.stream;
        }
        waited = waited || HostWaits(asked);
      }
      ahead += BringsTheNextBatch(step, back);
    }
    // The host does not wait for a batch that is not ready. Most are ready.
    EXPECT_GT(ahead, steps.size() / 2);
  }

  void CheckAhead(const std::string& pull) {
    // Weight decay uses the weights from which the gradient was made.
    const std::vector<std::string> settings = {
        "compression.push=none",           pull,
        "consistency.staleness=1",         "consistency.pull_ahead=true",
        "optimizer.sgd.weight_decay=0.01", "optimizer.sgd.momentum=0"};
    const std::vector<std::vector<Asked>> steps = Train(settings);
    Check(steps, kDownloads, 4, 4);
    size_t ahead = 0;
    for (const std::vector<Asked>& step : steps) {
      // Another thread starts the copy during the step, and the step does not wait for this thread,
      // so the copy may come at any time.
      const size_t come = Count(step, Asked::kCopyIn, kWeights);
      EXPECT_EQ(come + Count(step, Asked::kCopyIn, kKernels), 1u);
      ahead += come;
    }
    EXPECT_GT(ahead, steps.size() / 2);
    CheckWeights(settings);
  }
};

TEST_F(SteadyState, TheHostWaitsForGradientsAndTheLoss) {
  // Two layers' weights and biases.
  const std::vector<std::string> settings = {"compression.push=none"};
  Check(Train(settings), kDownloads, 4, 4);
  CheckWeights(settings);
}

TEST_F(SteadyState, TheHostWaitsForPayloadsAndTheLoss) {
  const std::vector<std::string> settings = {"compression.push.topk.density=0.05",
                                             "compression.dense_below=0B"};
  // Small payloads are copied by launches.
  Check(Train(settings), kCodecs, 1, 0);
  CheckWeights(settings);
}

// Local steps keep gradients and weights on the device; only the loss comes back, and at an
// exchange the weights.
TEST_F(SteadyState, LocalStepsStayOnTheDevice) {
  const std::string bounds = "train.clip={norm: 0.05, value: 0.01}";
  const std::string fragments = "local={fragments: 2, delay: 1, mix: 0.5}";
  const std::string adamw = "{adamw: {learning_rate: 0.01, weight_decay: 0.1}}";
  const std::string muon = "{muon: {learning_rate: 0.01, weight_decay: 0.1}}";
  for (const auto& [optimizer, more] :
       {std::pair(adamw, bounds), std::pair(adamw, fragments), std::pair(muon, bounds)}) {
    SCOPED_TRACE(optimizer + more);
    const std::vector<std::string> settings = {more,
                                               "local.steps=8",
                                               "local.optimizer=" + optimizer,
                                               "optimizer={worker: {}}",
                                               "compression.push=none",
                                               "train.epochs=2"};
    const std::vector<std::vector<Asked>> steps = TrainAll(settings);
    size_t exchanges = 0;
    for (const std::vector<Asked>& step : steps) {
      EXPECT_EQ(Count(step, Asked::kCopyOut, kDownloads), 0u);
      const size_t out = Count(step, Asked::kCopyOut, kKernels);
      exchanges += out > 1;
    }
    EXPECT_GT(exchanges, steps.size() / 16);
    EXPECT_LT(exchanges, steps.size() * 3 / 4);
    CheckWeights(settings);
    std::filesystem::remove_all(Path("run"));
    std::filesystem::remove_all(Path("reference"));
  }
}

// Bounds need the gradients themselves.
TEST_F(SteadyState, ClippedGradientsAreEncodedOnTheHost) {
  const std::vector<std::string> settings = {"compression.push.topk.density=0.05",
                                             "compression.dense_below=0B",
                                             "train.clip={norm: 0.05, value: 0.01}"};
  Check(Train(settings), kDownloads, 4, 4);
  CheckWeights(settings);
}

TEST_F(SteadyState, PartsOfABatchAreAddedUpOnTheHost) {
  const std::vector<std::string> settings = {"compression.push.topk.density=0.05",
                                             "compression.dense_below=0B", "data.micro_batch=8"};
  for (const std::vector<Asked>& step : Train(settings)) {
    EXPECT_EQ(Count(step, Asked::kWaitForAll, 0), 0u);
    EXPECT_EQ(Count(step, Asked::kWaitForEvent, kDownloads), 4u);
    EXPECT_EQ(Count(step, Asked::kCopyOut, kCodecs), 0u);
  }
  CheckWeights(settings);
}

// With pull_ahead weights come while a step computes. The next step's kernels wait for their copy,
// and the host does not. Now and then a pull is late or the device is quick; then weights come
// between steps.
TEST_F(SteadyState, WeightsComeWhileAStepComputes) { CheckAhead("compression.pull=none"); }
TEST_F(SteadyState, ChangesOfWeightsComeWhileAStepComputes) {
  CheckAhead("compression.pull.delta={}");
}

// The second copy of the weights is counted if there is room for it and for codecs.
TEST(DryRun, CountsTheWeightsThatComeAhead) {
  Config config;
  config.mutable_model()->set_zoo("mlp");
  config.mutable_model()->add_hidden(1024);
  auto* data = config.mutable_data();
  data->set_format(DataConfig::SYNTHETIC);
  data->set_batch(8);
  data->mutable_synthetic()->set_train_samples(64);
  data->mutable_synthetic()->set_test_samples(64);
  for (int size : {1, 32, 32}) data->mutable_synthetic()->add_shape(size);
  data->mutable_synthetic()->set_classes(10);
  const NetworkOptions device = {.backend = "cudnn", .plugin_dir = FakeDir("queued_device")};
  const auto text = [&](size_t mebibytes) {
    const auto told = DryRunText(config, device, mebibytes << 20);
    EXPECT_TRUE(told.ok()) << told.status();
    return told.value_or("");
  };
  using testing::ContainsRegex;
  EXPECT_THAT(text(0), testing::Not(testing::HasSubstr("weights ahead")));
  config.mutable_consistency()->set_pull_ahead(true);
  // Weights take 4.04 MiB, and so do their gradients.
  EXPECT_THAT(text(0), ContainsRegex("weights ahead +4.04 MiB  those of the next step"));
  EXPECT_THAT(text(0), ContainsRegex("together +12"));
  EXPECT_THAT(text(17), ContainsRegex("weights ahead +4.04 MiB"));
  EXPECT_THAT(text(15), ContainsRegex("weights ahead +0.00 MiB  no room"));
  EXPECT_THAT(text(15), ContainsRegex("together +8"));
}

// After the first steps have tried the candidates, a choice costs nothing: no gradient comes to the
// host, nothing is timed, and each codec has its memory.
TEST_F(SteadyState, ACodecThatIsChosenWorksOnTheDevice) {
  Check(Train({"compression.push.auto={steps: 1, codecs: [int8]}", "compression.dense_below=0B"}),
        kCodecs, 1, 0);
}

}  // namespace
}  // namespace psgd
