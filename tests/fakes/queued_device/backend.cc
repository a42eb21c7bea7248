// An imitated device: the reference's kernels behind streams (queues.h), as a plugin that replaces
// `cudnn`. It tests on any machine what a network does around GPU kernels: uploads, batches ahead,
// early gradients, recorded steps. BackendOptions::device is the seed.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/newton_schulz.h"
#include "engine/reference/backend.h"
#include "engine/runtime/host_memory.h"
#include "engine/runtime/plugin.h"
#include "optimizers/norms.h"
#include "tests/fakes/queued_device/devices.h"

namespace psgd::queued {
namespace {

// Memory that is freed when no waiting work can use it.
class Memory : public DeviceMemory {
 public:
  Memory(QueuesPtr queues, std::unique_ptr<DeviceMemory> memory)
      : queues_(std::move(queues)), memory_(std::move(memory)) {}
  ~Memory() override { queues_->WaitForAll(); }
  void* data() const override { return memory_->data(); }

 private:
  const QueuesPtr queues_;
  const std::unique_ptr<DeviceMemory> memory_;
};

class QueuedKernel : public Kernel {
 public:
  QueuedKernel(QueuesPtr queues, std::unique_ptr<Kernel> kernel, const Step* step)
      : queues_(std::move(queues)), kernel_(std::move(kernel)), step_(step) {}
  void Bind(const Buffers& buffers) override { kernel_->Bind(buffers); }
  absl::Status Run(const Step&) override {
    queues_->Put(kKernels, Asked::kLaunch, [this] { (void)kernel_->Run(*step_); });
    return absl::OkStatus();
  }

 private:
  const QueuesPtr queues_;
  const std::unique_ptr<Kernel> kernel_;
  const Step* const step_;  // on the device
};

class QueuedCopy : public Copy {
 public:
  QueuedCopy(QueuesPtr queues, EventPtr done)
      : queues_(std::move(queues)), done_(std::move(done)) {}
  bool Done() const override { return queues_->Passed(*done_); }
  absl::Status Wait() override {
    queues_->Wait(*done_);
    return absl::OkStatus();
  }

 private:
  const QueuesPtr queues_;
  const EventPtr done_;
};

class QueuedMark : public Mark {
 public:
  explicit QueuedMark(QueuesPtr queues) : queues_(std::move(queues)) {}
  bool Passed() const override { return queues_->Passed(*event_); }
  void* event() const override { return event_.get(); }
  const EventPtr& shared() const { return event_; }

 private:
  const QueuesPtr queues_;
  const EventPtr event_ = std::make_shared<Event>();
};

class QueuedRecording : public Recording {
 public:
  explicit QueuedRecording(Tape work) : work_(std::move(work)) {}
  absl::Status Replay() override {
    for (const Work& work : work_) work();
    return absl::OkStatus();
  }

 private:
  const Tape work_;
};

// The feed of engine/cudnn/feed.cc, on queues.
class QueuedFeed : public Feed {
 public:
  QueuedFeed(QueuesPtr queues, int stream, size_t bytes)
      : queues_(std::move(queues)), stream_(stream), waiting_(bytes) {}
  ~QueuedFeed() override { queues_->WaitForAll(); }

  absl::Status AwaitLeft() override {
    queues_->Wait(*arrived_);
    return absl::OkStatus();
  }
  absl::Status Start(const void* host) override {
    queues_->Await(stream_, taken_);
    queues_->Put(stream_, Asked::kCopyIn,
                 [this, host] { std::memcpy(waiting_.data(), host, waiting_.size()); });
    queues_->Set(stream_, arrived_);
    return absl::OkStatus();
  }
  absl::Status Take(void* device) override {
    queues_->Await(kKernels, arrived_);
    queues_->Put(kKernels, Asked::kLaunch,
                 [this, device] { std::memcpy(device, waiting_.data(), waiting_.size()); });
    queues_->Set(kKernels, taken_);
    return absl::OkStatus();
  }

 private:
  const QueuesPtr queues_;
  const int stream_;
  std::vector<std::byte> waiting_;
  const EventPtr arrived_ = std::make_shared<Event>(), taken_ = std::make_shared<Event>();
};

// NewtonSchulz with the bits that optimizers/muon.cc has on processors with fused operations.
void Orthogonalize(size_t rows, size_t columns, float* x) {
  const size_t r = std::min(rows, columns), c = std::max(rows, columns);
  // Element i, j of the wide one of x and x'.
  const auto at = [=](size_t i, size_t j) { return rows > columns ? j * columns + i : i * c + j; };
  SquareSums squares;
  for (size_t i = 0; i < r * c; ++i) {
    const double value = x[at(i / c, i % c)];
    squares.sums[i % SquareSums::kSums] += value * value;
  }
  const float scale = NewtonSchulz::Scale(squares.Sum());
  for (size_t i = 0; i < r * c; ++i) x[i] *= scale;
  const auto sum = [](size_t count, const auto& a, const auto& b) {
    float total = 0;
    for (size_t k = 0; k < count; ++k) total = std::fma(a(k), b(k), total);
    return total;
  };
  std::vector<float> y(r * r), polynomial(r * r), next(r * c);
  for (int round = 0; round < NewtonSchulz::kRounds; ++round) {
    for (size_t i = 0; i < r * r; ++i) {
      y[i] = sum(
          c, [&](size_t k) { return x[at(i / r, k)]; }, [&](size_t k) { return x[at(i % r, k)]; });
    }
    for (size_t i = 0; i < r * r; ++i) {
      const float product = sum(
          r, [&](size_t k) { return y[i / r * r + k]; },
          [&](size_t k) { return y[k * r + i % r]; });
      polynomial[i] = NewtonSchulz::kC * product + NewtonSchulz::kB * y[i];
    }
    for (size_t i = 0; i < r * c; ++i) {
      const size_t here = at(i / c, i % c);
      next[here] = sum(
                       r, [&](size_t k) { return polynomial[i / c * r + k]; },
                       [&](size_t k) { return x[at(k, i % c)]; }) +
                   NewtonSchulz::kA * x[here];
    }
    std::ranges::copy(next, x);
  }
}

class QueuedBackend : public HostBackend {
 public:
  explicit QueuedBackend(const BackendOptions& options)
      : kernels_(MakeReferenceBackend<float>(options)), queues_(MakeDevice(options.device)) {}

  bool computes_on_host() const override { return false; }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(size_t bytes) override {
    PSGD_ASSIGN_OR_RETURN(auto memory, HostBackend::Allocate(bytes));
    return std::make_unique<Memory>(queues_, std::move(memory));
  }
  absl::Status Upload(const void* host, void* device, size_t bytes) override {
    queues_->Put(kKernels, Asked::kCopyIn, [=] { std::memcpy(device, host, bytes); });
    return absl::OkStatus();
  }
  absl::Status Download(const void* device, void* host, size_t bytes) override {
    queues_->Put(kKernels, Asked::kCopyOut, [=] { std::memcpy(host, device, bytes); });
    queues_->Wait(kKernels);
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Copy>> StartDownload(const void* device, void* host,
                                                      size_t bytes) override {
    if (GetFaults().recorded_downloads && queues_->Records(kKernels)) {
      return absl::InternalError("this device records no downloads");
    }
    Order(kKernels, kDownloads);
    queues_->Put(kDownloads, Asked::kCopyOut, [=] { std::memcpy(host, device, bytes); });
    const auto done = std::make_shared<Event>();
    queues_->Set(kDownloads, done, /*external=*/true);
    return std::make_unique<QueuedCopy>(queues_, done);
  }
  absl::Status Update(std::span<const ParameterUpdate> updates,
                      const GradientBounds& bounds) override {
    const auto scale = std::make_shared<float>(1.0f);
    if (bounds.norm > 0) {
      queues_->Put(kKernels, Asked::kLaunch,
                   [=, all = std::vector(updates.begin(), updates.end())] {
                     double squares = 0;
                     for (const ParameterUpdate& of : all) {
                       if (of.update.kind == ElementUpdate::Kind::kAdd) continue;
                       for (size_t i = 0; i < of.size; ++i) {
                         const double g = bounds.Bound(of.gradient[i]);
                         squares += g * g;
                       }
                     }
                     *scale = bounds.Scale(squares);
                   });
    }
    for (const ParameterUpdate& of : updates) {
      queues_->Put(kKernels, Asked::kLaunch, [=] {
        float unused[2] = {};
        const bool trained = of.update.kind != ElementUpdate::Kind::kAdd;
        for (size_t i = 0; i < of.size; ++i) {
          const auto state = [&](int s) {
            return of.states[s] != nullptr ? of.states[s] + i : &unused[s];
          };
          const float g = of.gradient[i];
          of.update.Apply(trained ? bounds.Bound(g) * *scale : g, of.weights + i, state(0),
                          state(1));
        }
      });
    }
    return absl::OkStatus();
  }
  absl::Status MakeOrthogonal(size_t rows, size_t columns, float* x, float*) override {
    queues_->Put(kKernels, Asked::kLaunch, [=] { Orthogonalize(rows, columns, x); });
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Mark>> SetMark() override {
    auto mark = std::make_unique<QueuedMark>(queues_);
    queues_->Set(kKernels, mark->shared(), /*external=*/true);
    return mark;
  }
  absl::StatusOr<std::unique_ptr<Feed>> MakeFeed(size_t bytes) override {
    // A network makes a feed for batches first, and a feed for weights later.
    return std::make_unique<QueuedFeed>(queues_, feeds_++ == 0 ? kUploads : kWeights, bytes);
  }
  absl::StatusOr<std::vector<std::unique_ptr<Kernel>>> MakeKernels(const Graph& graph,
                                                                   MemoryPlan* plan) override {
    PSGD_ASSIGN_OR_RETURN(auto kernels, kernels_->MakeKernels(graph, plan));
    for (auto& kernel : kernels) {
      if (kernel) kernel = std::make_unique<QueuedKernel>(queues_, std::move(kernel), &step_);
    }
    return kernels;
  }
  void EnterThread() override {}
  absl::Status BeginRun(const Step& step) override {
    queues_->Put(kKernels, Asked::kRun, [this, step] { step_ = step; });
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Recording>> Record(
      const std::function<absl::Status()>& work) override {
    queues_->BeginRecording(kKernels);
    Order(kKernels, kDownloads);
    const absl::Status status = work();
    Order(kDownloads, kKernels);
    auto recorded = queues_->EndRecording(kKernels);
    PSGD_RETURN_IF_ERROR(status);
    return std::make_unique<QueuedRecording>(std::move(recorded));
  }

 private:
  void Order(int first, int after) {
    const auto event = std::make_shared<Event>();
    queues_->Set(first, event);
    queues_->Await(after, event);
  }

  const std::unique_ptr<Backend> kernels_;
  const QueuesPtr queues_;
  int feeds_ = 0;
  Step step_;  // on the device
};

}  // namespace
}  // namespace psgd::queued

extern "C" __attribute__((visibility("default"))) bool psgd_make_backend(
    uint32_t interface, const psgd::BackendOptions& options,
    absl::StatusOr<std::unique_ptr<psgd::Backend>>* made) {
  if (interface != PSGD_BACKEND_INTERFACE) return false;
  *made = std::make_unique<psgd::queued::QueuedBackend>(options);
  return true;
}
