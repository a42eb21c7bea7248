// What a trainer asks of a device in each step once it is under way: everything is put on streams, and
// the host waits for what it needs alone. A real trainer and a real server; a device that keeps a trace.
#include <dlfcn.h>

#include <algorithm>
#include <set>

#include "tests/queued_device/asked.h"
#include "tests/system/run_test.h"
#include "worker/trainer.h"

namespace psgd {
namespace {

using queued::Asked;
using queued::kCodecs;
using queued::kDownloads;
using queued::kKernels;
using queued::kUploads;

constexpr int kDevice = 7;
// The first steps make what later ones use, and are recorded.
constexpr size_t kFirstSteady = 4;
constexpr size_t kLeastSteady = 40;

std::vector<Asked> AskedOf(int device) {
  const std::string plugin = std::string(PSGD_QUEUED_DEVICE_DIR) + "/libpsgd_cudnn.so";
  void* const library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return {};
  const auto asked =
      reinterpret_cast<queued::AskedFunction>(dlsym(library, "psgd_queued_device_asked"));
  std::vector<Asked> all;
  if (asked != nullptr) asked(device, &all);
  dlclose(library);
  return all;
}

// From the first kernel of a step to that of the next: behind the wait for a step's loss comes what
// brings the next one's weights and batch.
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
  return static_cast<size_t>(std::ranges::find_if(step, [=](const Asked& a) {
                               return a.kind == kind && a.stream == stream;
                             }) -
                             step.begin());
}

bool HostWaits(const Asked& asked) {
  return asked.kind == Asked::kWaitForEvent || asked.kind == Asked::kWaitForStream ||
         asked.kind == Asked::kWaitForAll;
}

// The batch of the next step is on its way before this one is waited for.
bool BringsTheNextBatch(const std::vector<Asked>& step, int back) {
  return Find(step, Asked::kCopyIn, kUploads) < Find(step, Asked::kWaitForEvent, back);
}

class SteadyState : public RunTest {
 protected:
  static std::vector<std::string> Common() {
    return {"cluster.workers=1", "cluster.segment=1000", "train.epochs=1", "data.prefetch=64"};
  }
  // The steps of an epoch, but for the first.
  std::vector<std::vector<Asked>> Train(const std::vector<std::string>& settings) {
    Process server(std::vector<std::string>{"ps-server", "--config", SmallConfig(), "--port", "0",
                                            "--run-dir", Path("run")} +
                   Sets(Common() + settings));
    TrainerOptions options;
    options.server = ServerOf(server);
    options.name = "queued";
    options.gpus = {{.index = kDevice, .name = "streams in host memory"}};
    options.plugin_dir = PSGD_QUEUED_DEVICE_DIR;
    // So that batches are ready.
    options.step_delay = Milliseconds(2);
    const absl::Status trained = Trainer(options).Run();
    EXPECT_TRUE(trained.ok()) << trained;
    EXPECT_EQ(server.Wait().code, 0) << server.Err();
    std::vector<std::vector<Asked>> steps = Steps(AskedOf(kDevice));
    // Evaluations bring nothing back but their result.
    std::erase_if(steps, [](const auto& step) {
      return Count(step, Asked::kWaitForEvent, kDownloads) +
                 Count(step, Asked::kWaitForEvent, kCodecs) ==
             0;
    });
    EXPECT_GE(steps.size(), kFirstSteady + kLeastSteady);
    steps.erase(steps.begin(), steps.begin() + std::min(steps.size(), kFirstSteady));
    // The last one of the epoch is followed by reports and a checkpoint.
    if (!steps.empty()) steps.pop_back();
    return steps;
  }

  // A wait that is missing between streams would give other numbers.
  void CheckWeights(const std::vector<std::string>& settings) {
    RunOnReference("reference", SmallConfig(), Common() + settings);
    EXPECT_FALSE(Weights("run").empty());
    EXPECT_TRUE(Weights("run") == Weights("reference"));
  }

  // `back`: where gradients or payloads come to the host; so many a step.
  void Check(const std::vector<std::vector<Asked>>& steps, int back, size_t arrivals) {
    size_t ahead = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      SCOPED_TRACE(i);
      const std::vector<Asked>& step = steps[i];
      // Nobody waits for the whole device, nor frees memory, which would.
      EXPECT_EQ(Count(step, Asked::kWaitForAll, 0), 0u);
      // The host waits for a whole stream once: at the end, for the loss.
      for (int stream : {kDownloads, kUploads, kCodecs}) {
        EXPECT_EQ(Count(step, Asked::kWaitForStream, stream), 0u) << stream;
      }
      EXPECT_EQ(Count(step, Asked::kWaitForStream, kKernels), 1u);
      EXPECT_EQ(Count(step, Asked::kCopyOut, kKernels), 1u);
      const size_t end = Find(step, Asked::kWaitForStream, kKernels);
      EXPECT_EQ(Find(step, Asked::kCopyOut, kKernels), end - 1);
      // It waits for each gradient or payload that it sends: these have come, not all of the stream.
      for (int stream : {kDownloads, kCodecs}) {
        const size_t expected = stream == back ? arrivals : 0;
        EXPECT_EQ(Count(step, Asked::kCopyOut, stream), expected) << stream;
        EXPECT_EQ(Count(step, Asked::kWaitForEvent, stream), expected) << stream;
      }
      // And, before it writes a batch to the memory that it is copied from, for the copy of the one
      // before. That was put there before this step's kernels and waits for none of them.
      EXPECT_EQ(Count(step, Asked::kWaitForEvent, kUploads),
                Count(step, Asked::kCopyIn, kUploads));
      EXPECT_EQ(Count(step, Asked::kWaitForEvent, kKernels), 0u);
      std::set<uint64_t> set_here;
      bool waited = false;
      for (size_t k = 0; k < step.size(); ++k) {
        const Asked& asked = step[k];
        if (asked.kind == Asked::kSetEvent && asked.stream == kUploads) set_here.insert(asked.event);
        if (asked.kind == Asked::kWaitForEvent && asked.stream == kUploads) {
          EXPECT_FALSE(set_here.contains(asked.event));
          continue;
        }
        // From the first wait to the last there is nothing left to launch, nor to bring.
        EXPECT_FALSE(k > end && HostWaits(asked));
        if (waited && k < end) {
          EXPECT_FALSE(asked.kind == Asked::kLaunch || asked.kind == Asked::kCopyIn) << asked.stream;
        }
        waited = waited || HostWaits(asked);
      }
      ahead += BringsTheNextBatch(step, back);
    }
    // A batch that is not ready yet is not waited for; most are.
    EXPECT_GT(ahead, steps.size() / 2);
  }
};

TEST_F(SteadyState, TheHostWaitsForGradientsAndTheLoss) {
  // Two layers' weights and biases.
  const std::vector<std::string> settings = {"compression.push=none"};
  Check(Train(settings), kDownloads, 4);
  CheckWeights(settings);
}

TEST_F(SteadyState, TheHostWaitsForPayloadsAndTheLoss) {
  const std::vector<std::string> settings = {"compression.push.topk.density=0.05",
                                             "compression.dense_below=0B"};
  Check(Train(settings), kCodecs, 4);
  CheckWeights(settings);
}

// Once the candidates have been tried, in the first steps, a choice costs nothing: no gradient comes to
// the host, nothing is timed, and memory for each codec is there.
TEST_F(SteadyState, ACodecThatIsChosenWorksOnTheDevice) {
  Check(Train({"compression.push.auto={steps: 1, codecs: [int8]}", "compression.dense_below=0B"}),
        kCodecs, 4);
}

}  // namespace
}  // namespace psgd
