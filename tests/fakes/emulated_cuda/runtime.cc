#include "tests/fakes/emulated_cuda/runtime.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "tests/fakes/emulated_cuda/settings.h"

struct CUstream_st {
  int index;
  int device;
};
struct CUevent_st {
  int device;
  std::shared_ptr<psgd::queued::Event> event = std::make_shared<psgd::queued::Event>();
  std::shared_ptr<double> passed_at = std::make_shared<double>(-1);  // microseconds; -1: not yet
};
struct CUgraph_st {
  psgd::queued::Tape tape;
};
struct CUgraphExec_st {
  psgd::queued::Tape tape;
};

namespace psgd::emulated {
namespace {

constexpr size_t kAlignment = 256;
constexpr int kGarbage = 0xFF;  // NaN in every type
constexpr size_t kMostGarbage = 1 << 20;

struct Memory {
  size_t bytes;
  std::optional<int> device;  // null: all devices can use it
};

// The state that all threads of the process share.
struct Shared {
  std::mutex mutex;
  std::condition_variable called;    // by Call
  std::vector<queued::Asked> asked;  // no test reads it
  queued::Queues queues{0, /*seed=*/1, &asked};
  std::map<int, int> device_of_stream;  // by index
  std::vector<int> free_streams;
  std::map<void*, Memory> on_device, pinned;
  size_t used = 0;
  uint64_t launches = 0;
  double now = 0;  // the devices' time, in microseconds
};

Shared& All() {
  static Shared* const shared = new Shared();
  return *shared;
}

// State of the calling thread.
thread_local cudaError_t last_error = cudaSuccess;
thread_local int recordings = 0;
thread_local int current_device = 0;

cudaError_t Note(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

bool Within(const std::map<void*, Memory>& memory, const void* at) {
  auto after = memory.upper_bound(const_cast<void*>(at));
  if (after == memory.begin()) return false;
  --after;
  return static_cast<const char*>(at) < static_cast<char*>(after->first) + after->second.bytes;
}

// Repeats a wait of the host until it succeeds. Meanwhile other threads launch what it waits for.
template <typename Wait>
void Repeat(std::unique_lock<std::mutex>* lock, const Wait& wait) {
  while (!wait()) All().called.wait(*lock);
}

// The error of calls that allocate or free memory or wait, if the thread is recording.
cudaError_t Forbidden() {
  return recordings > 0 ? Note(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

cudaError_t Allocate(void** at, size_t bytes, std::optional<int> device,
                     std::map<void*, Memory>* memory) {
  if (const cudaError_t error = Forbidden(); error != cudaSuccess) return error;
  std::lock_guard lock(All().mutex);
  if (bytes > GetSettings().memory - All().used) return Note(cudaErrorMemoryAllocation);
  *at = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  std::memset(*at, kGarbage, std::min(bytes, kMostGarbage));
  (*memory)[*at] = {bytes, device};
  All().used += bytes;
  return cudaSuccess;
}

// Waits for the devices that can use the memory.
cudaError_t Free(void* at, std::map<void*, Memory>* memory) {
  if (at == nullptr) return cudaSuccess;
  if (const cudaError_t error = Forbidden(); error != cudaSuccess) return error;
  std::unique_lock lock(All().mutex);
  const auto found = memory->find(at);
  if (found == memory->end()) return Note(cudaErrorInvalidValue);
  Repeat(&lock, [device = found->second.device] {
    return std::ranges::all_of(All().device_of_stream, [&](const auto& stream) {
      return (device && stream.second != *device) || All().queues.Wait(stream.first);
    });
  });
  All().asked.clear();
  All().used -= found->second.bytes;
  memory->erase(found);
  std::free(at);
  return cudaSuccess;
}

cudaError_t SetEvent(cudaEvent_t event, cudaStream_t stream, bool external) {
  std::lock_guard lock(All().mutex);
  if (event->device != stream->device) return Note(cudaErrorInvalidResourceHandle);
  queued::Queues& queues = All().queues;
  queues.Put(stream->index, queued::Asked::kLaunch, [at = event->passed_at] { *at = All().now; });
  if (external && queues.Records(stream->index)) {
    // CUDA does not say that the launch of a graph takes back the events in the graph, so this one
    // does not: until the device gets there, the event is that of the launch before.
    queues.Put(stream->index, queued::Asked::kLaunch, [set = event->event, index = stream->index] {
      set->latest = std::make_shared<queued::Event::Pass>(index, /*done=*/true);
    });
  } else {
    queues.Set(stream->index, event->event);
  }
  return cudaSuccess;
}

}  // namespace

Settings& GetSettings() {
  static Settings* const settings = new Settings();
  return *settings;
}

int CurrentDevice() { return current_device; }
int DeviceOf(cudaStream_t stream) { return stream->device; }
bool Recording() { return recordings > 0; }
void Spend(double microseconds) { All().now += microseconds; }

void Put(cudaStream_t stream, std::function<void()> work) {
  std::lock_guard lock(All().mutex);
  All().queues.Put(stream->index, queued::Asked::kLaunch, std::move(work));
}

void Call(const std::function<void()>& call) {
  std::lock_guard lock(All().mutex);
  call();
  All().called.notify_all();
}

void Meet(cudaStream_t stream, const std::shared_ptr<queued::Meeting>& meeting, size_t member) {
  All().queues.Meet(stream->index, meeting, member);
}

void Launch(cudaStream_t stream, const Three& blocks, const Three& threads,
            std::function<void()> kernel) {
  constexpr unsigned kMostOther = 65535;  // limit of a grid's second and third axis
  if (blocks.Count() == 0 || threads.Count() == 0 || threads.Count() > 1024 ||
      blocks.y > kMostOther || blocks.z > kMostOther) {
    Note(cudaErrorInvalidConfiguration);
    return;
  }
  if (stream->device != current_device) {
    Note(cudaErrorInvalidResourceHandle);
    return;
  }
  Put(stream, [=] { RunBlocks(blocks, threads, All().launches++ % 2 == 1, kernel); });
}

}  // namespace psgd::emulated

extern "C" __attribute__((visibility("default"))) psgd::emulated::Settings*
psgd_emulated_settings() {
  return &psgd::emulated::GetSettings();
}

using psgd::emulated::All;
using psgd::emulated::Forbidden;
using psgd::emulated::last_error;
using psgd::emulated::Note;
using psgd::emulated::recordings;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = psgd::emulated::kDevices;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device >= psgd::emulated::kDevices) return Note(cudaErrorInvalidDevice);
  psgd::emulated::current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "emulated");
  properties->major = psgd::emulated::GetSettings().capability / 10;
  properties->minor = psgd::emulated::GetSettings().capability % 10;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorStreamCaptureUnjoined:
      return "operation failed due to unjoined work in another stream";
    case cudaErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
    default:
      return "an error of the emulation";
  }
}

cudaError_t cudaMalloc(void** at, size_t bytes) {
  return psgd::emulated::Allocate(at, bytes, psgd::emulated::current_device, &All().on_device);
}
cudaError_t cudaHostAlloc(void** at, size_t bytes, unsigned) {
  return psgd::emulated::Allocate(at, bytes, std::nullopt, &All().pinned);
}
cudaError_t cudaFree(void* at) { return psgd::emulated::Free(at, &All().on_device); }
cudaError_t cudaFreeHost(void* at) { return psgd::emulated::Free(at, &All().pinned); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  std::lock_guard lock(All().mutex);
  *total = psgd::emulated::GetSettings().memory;
  *free = *total - All().used;
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream) {
  psgd::emulated::Put(stream, [=] { std::memset(at, value, bytes); });
  return cudaSuccess;
}

// Unpinned host memory is read, or written, before the call returns.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  bool staged = false;
  {
    std::lock_guard lock(All().mutex);
    const void* const host = kind == cudaMemcpyDeviceToHost ? to : from;
    staged = kind != cudaMemcpyDeviceToDevice && !psgd::emulated::Within(All().pinned, host);
    const bool to_device = kind != cudaMemcpyDeviceToHost,
               of_device = kind != cudaMemcpyHostToDevice;
    if (bytes > 0 && ((to_device && !psgd::emulated::Within(All().on_device, to)) ||
                      (of_device && !psgd::emulated::Within(All().on_device, from)))) {
      return Note(cudaErrorInvalidValue);
    }
  }
  if (bytes == 0) return cudaSuccess;
  if (staged && kind == cudaMemcpyHostToDevice) {
    const char* const first = static_cast<const char*>(from);
    psgd::emulated::Put(stream, [=, kept = std::vector<char>(first, first + bytes)] {
      std::memcpy(to, kept.data(), bytes);
    });
    return cudaSuccess;
  }
  psgd::emulated::Put(stream, [=] { std::memcpy(to, from, bytes); });
  return staged ? cudaStreamSynchronize(stream) : cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* last, int* first) {
  *last = 0;
  *first = -1;
  return cudaSuccess;
}
// Streams work as late as allowed, so priorities change nothing.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  std::lock_guard lock(All().mutex);
  if (All().free_streams.empty()) All().free_streams.push_back(All().queues.AddStream());
  *stream = new CUstream_st{All().free_streams.back(), psgd::emulated::current_device};
  All().free_streams.pop_back();
  All().device_of_stream[(*stream)->index] = (*stream)->device;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::unique_lock lock(All().mutex);
  psgd::emulated::Repeat(&lock, [&] { return All().queues.Wait(stream->index); });
  All().device_of_stream.erase(stream->index);
  All().free_streams.push_back(stream->index);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t error = Forbidden(); error != cudaSuccess) return error;
  std::unique_lock lock(All().mutex);
  psgd::emulated::Repeat(&lock, [&] { return All().queues.Wait(stream->index); });
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  std::lock_guard lock(All().mutex);
  if (All().queues.LeavesRecording(stream->index, *event->event)) {
    return Note(cudaErrorStreamCaptureIsolation);
  }
  All().queues.Await(stream->index, event->event);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st{psgd::emulated::current_device};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return psgd::emulated::SetEvent(event, stream, /*external=*/false);
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return psgd::emulated::SetEvent(event, stream, flags == cudaEventRecordExternal);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t error = Forbidden(); error != cudaSuccess) return error;
  std::unique_lock lock(All().mutex);
  psgd::emulated::Repeat(&lock, [&] { return All().queues.Wait(*event->event); });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const cudaError_t error = Forbidden(); error != cudaSuccess) return error;
  std::lock_guard lock(All().mutex);
  return All().queues.Passed(*event->event) ? cudaSuccess : Note(cudaErrorNotReady);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  std::lock_guard lock(All().mutex);
  if (*begin->passed_at < 0 || *end->passed_at < 0) return Note(cudaErrorInvalidResourceHandle);
  *milliseconds = static_cast<float>((*end->passed_at - *begin->passed_at) / 1000);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  std::lock_guard lock(All().mutex);
  All().queues.BeginRecording(stream->index);
  ++recordings;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  std::lock_guard lock(All().mutex);
  --recordings;
  const bool joined = All().queues.Joined(stream->index);
  psgd::queued::Tape tape = All().queues.EndRecording(stream->index);
  if (!joined) return Note(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{std::move(tape)};
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  *made = new CUgraphExec_st{graph->tape};
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
  *count = graph->tape.size();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}
// The recorded work follows the work on the stream on which the recording began.
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  std::lock_guard lock(All().mutex);
  for (const psgd::queued::Work& work : graph->tape) work();
  return cudaSuccess;
}
