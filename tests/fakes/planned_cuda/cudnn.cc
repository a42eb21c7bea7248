// The real cuDNN without a device. It can plan for a device whose properties it reads from a text.
// So this passes the engine's calls on, but gives such properties where the engine gives a handle.
#include <cudnn.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/loaded_library.h"
#include "tests/fakes/emulated_cuda/settings.h"
#include "tests/fakes/planned_cuda/plans.h"

// The engine's handle. cuDNN never gets it.
struct cudnnContext {};

namespace psgd::planned {
namespace {

// 9.8 can do it, but crashes for devices of 10.0.
constexpr size_t kOldest = 91200;
#if CUDNN_VERSION >= 90800
constexpr auto kDevice = CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR;
constexpr auto kText = CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION;
constexpr auto kDeviceOfHeuristic = CUDNN_ATTR_ENGINEHEUR_DEVICEPROP;
constexpr auto kDeviceOfPlan = CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP;
#else
// Older headers have no such names. Load refuses what is built with them.
constexpr auto kDevice = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
constexpr auto kText = CUDNN_ATTR_ENGINE_GLOBAL_INDEX;
constexpr auto kDeviceOfHeuristic = CUDNN_ATTR_ENGINEHEUR_MODE;
constexpr auto kDeviceOfPlan = CUDNN_ATTR_EXECUTION_PLAN_HANDLE;
#endif

// A kind of device, with the numbers that its kind decides.
struct Device {
  int capability;
  const char* name;
  int processors, processor_kilohertz;
  int threads, blocks, shared_bytes;  // that fit a processor; bytes: that a block may ask for
  int memory_kilohertz, memory_bits;
  int64_t memory_bytes, cache_bytes;
};

constexpr Device kDevices[] = {
    {75, "Tesla T4", 40, 1590000, 1024, 16, 65536, 5001000, 256, 15843721216, 4194304},
    {80, "NVIDIA A100-SXM4-80GB", 108, 1410000, 2048, 32, 166912, 1593000, 5120, 84987740160,
     41943040},
    {90, "NVIDIA H100 80GB HBM3", 132, 1980000, 2048, 32, 232448, 2619000, 5120, 85014151168,
     52428800},
    {100, "NVIDIA B200", 148, 1965000, 2048, 32, 232448, 3996000, 8192, 191514017792, 132644864},
    {120, "NVIDIA GeForce RTX 5090", 170, 2407000, 1536, 24, 101376, 14001000, 512, 34190917632,
     100663296},
};

// cuDNN 9.12 and 9.19 pass over the names that 9.28 added.
std::string TextOf(const Device& device) {
  std::string text =
      R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"warpSize":32,)"
      R"("maxThreadsPerBlock":1024,"regsPerBlock":65536,"maxRegistersPerSM":65536,)"
      R"("maxSharedMemoryPerBlock":49152,"reservedSharedMemoryPerBlock":1024,)"
      R"("isTccDriver":0,"supportCoopLaunch":1,"pciDeviceId":0,"cudaDeviceId":0,"smCountOrigin":0)";
  const auto add = [&](const char* name, auto value) {
    absl::StrAppend(&text, ",\"", name, "\":", value);
  };
  add("driverVer", CUDART_VERSION);
  add("deviceVer", 10 * device.capability);
  add("deviceName", absl::StrCat("\"", device.name, "\""));
  add("multiProcessorCount", device.processors);
  add("smClockRateKHz", device.processor_kilohertz);
  add("maxThreadsPerSM", device.threads);
  add("maxCtasPerSM", device.blocks);
  add("maxSharedMemoryPerBlockOptin", device.shared_bytes);
  add("oversizedSharedMemoryPerBlock", device.shared_bytes);
  add("memClockRateKHz", device.memory_kilohertz);
  add("memoryBusWidth", device.memory_bits);
  add("totalGlobalMem", device.memory_bytes);
  add("l2CacheSize", device.cache_bytes);
  return absl::StrCat("{", text, "}");
}

struct Cudnn {
  decltype(&cudnnGetVersion) version;
  decltype(&cudnnGetErrorString) error;
  decltype(&cudnnGetLastErrorString) last_error;
  decltype(&cudnnBackendCreateDescriptor) create;
  decltype(&cudnnBackendDestroyDescriptor) destroy;
  decltype(&cudnnBackendSetAttribute) set;
  decltype(&cudnnBackendGetAttribute) get;
  decltype(&cudnnBackendFinalize) finalize;
  std::map<int, cudnnBackendDescriptor_t> devices;  // properties by capability
};

absl::StatusOr<Cudnn> Load() {
  constexpr char kNextStep[] = "install cuDNN 9.12 or newer";
  // cuDNN loads the driver by its name, and then the loader returns the driver that is loaded: the
  // one in the folder of this plugin, which the loader calls $ORIGIN.
  PSGD_RETURN_IF_ERROR(LoadedLibrary::Load("$ORIGIN/libcuda.so.1", "build it").status());
  PSGD_ASSIGN_OR_RETURN(LoadedLibrary library, LoadedLibrary::Load("libcudnn.so.9", kNextStep));
  // cuDNN loads its compiler for each graph and frees it again. If it stays, planning takes a fifth
  // of the time.
  LoadedLibrary::Load(absl::StrCat("libnvrtc.so.", CUDART_VERSION / 1000), "").IgnoreError();
  Cudnn found;
  library.Find("cudnnGetVersion", &found.version);
  library.Find("cudnnGetErrorString", &found.error);
  library.Find("cudnnGetLastErrorString", &found.last_error);
  library.Find("cudnnBackendCreateDescriptor", &found.create);
  library.Find("cudnnBackendDestroyDescriptor", &found.destroy);
  library.Find("cudnnBackendSetAttribute", &found.set);
  library.Find("cudnnBackendGetAttribute", &found.get);
  library.Find("cudnnBackendFinalize", &found.finalize);
  PSGD_RETURN_IF_ERROR(library.FoundAll(kNextStep));
  const size_t version = std::min<size_t>(found.version(), CUDNN_VERSION);
  if (version < kOldest) {
    return FailedPreconditionError("cuDNN ", version / 10000, ".", version / 100 % 100,
                                   " cannot plan without a device; ", kNextStep);
  }
  for (const Device& device : kDevices) {
    const std::string text = TextOf(device);
    cudnnBackendDescriptor_t made = nullptr;
    if (found.create(kDevice, &made) != CUDNN_STATUS_SUCCESS ||
        found.set(made, kText, CUDNN_TYPE_CHAR, static_cast<int64_t>(text.size() + 1),
                  text.c_str()) != CUDNN_STATUS_SUCCESS ||
        found.finalize(made) != CUDNN_STATUS_SUCCESS) {
      char why[512] = "";
      found.last_error(why, sizeof why);
      return FailedPreconditionError("cuDNN ", found.version(),
                                     " does not take a device's properties (", why,
                                     "); give it what it wants in TextOf");
    }
    found.devices[device.capability] = made;
  }
  return found;
}

const absl::StatusOr<Cudnn>& Loaded() {
  static const auto* const loaded = new absl::StatusOr<Cudnn>(Load());
  return *loaded;
}

// REQUIRES: Loaded() is OK.
const Cudnn& Real() { return *Loaded(); }

// Says for which device the descriptor is.
cudnnStatus_t SetDevice(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name) {
  const auto found = Real().devices.find(emulated::GetSettings().capability);
  if (found == Real().devices.end()) return CUDNN_STATUS_BAD_PARAM;
  return Real().set(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &found->second);
}

// What the engine put into a descriptor. Descriptors that refer to it share it, so it may outlive
// the engine's descriptor.
struct Known {
  cudnnBackendDescriptorType_t type;
  Tensor tensor = {};
  std::vector<std::shared_ptr<const Known>> parts = {};  // descriptors in it
  std::optional<size_t> graph = {};  // index in Planned::graphs, of the graph that it is about
  bool tensor_cores = false;         // of a plan
  bool held = false;                 // a plan that is counted in its graph
};

struct Shared {
  std::mutex mutex;
  Planned planned;
  std::map<cudnnBackendDescriptor_t, std::shared_ptr<Known>> known;
};

Shared& All() {
  static Shared* const shared = new Shared();
  return *shared;
}

bool UsesTensorCores(cudnnBackendDescriptor_t config) {
  cudnnBackendDescriptor_t engine = nullptr;
  if (Real().create(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) != CUDNN_STATUS_SUCCESS) return false;
  int64_t count = 0;
  Real().get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
             &engine);
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  count = 0;
  Real().get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
             static_cast<int64_t>(notes.size()), &count, notes.data());
  notes.resize(static_cast<size_t>(count));
  Real().destroy(engine);
  return std::ranges::count(notes, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) > 0;
}

// Notes what the engine set. REQUIRES: the lock is held.
void Note(Known* known, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
          int64_t count, const void* values) {
  const auto many = [&]<typename T>(const T* first) {
    return std::vector<T>(first, first + count);
  };
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (const auto& other : many(static_cast<const cudnnBackendDescriptor_t*>(values))) {
      const std::shared_ptr<Known>& part = All().known.at(other);
      known->parts.push_back(part);
      if (part->graph) known->graph = part->graph;
      if (name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) {
        known->tensor_cores = UsesTensorCores(other);
      }
    }
  }
  switch (name) {
    case CUDNN_ATTR_TENSOR_DIMENSIONS:
      known->tensor.sizes = many(static_cast<const int64_t*>(values));
      break;
    case CUDNN_ATTR_TENSOR_STRIDES:
      known->tensor.strides = many(static_cast<const int64_t*>(values));
      break;
    default:
      break;
  }
}

// Notes that the descriptor is final. REQUIRES: the lock is held.
void NoteFinal(Known* known) {
  std::vector<Graph>& graphs = All().planned.graphs;
  if (known->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    known->graph = graphs.size();
    Graph& graph = graphs.emplace_back();
    for (const auto& operation : known->parts) {
      graph.operations.push_back(operation->type);
      for (const auto& part : operation->parts) {
        if (part->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) graph.tensors.push_back(part->tensor);
      }
    }
  }
  if (known->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && known->graph) {
    Graph& graph = graphs.at(*known->graph);
    known->held = true;
    ++graph.plans;
    graph.tensor_cores = known->tensor_cores;
  }
}

}  // namespace
}  // namespace psgd::planned

using psgd::planned::All;
using psgd::planned::Known;
using psgd::planned::Loaded;
using psgd::planned::Real;

extern "C" __attribute__((visibility("default"))) psgd::planned::Planned* psgd_planned() {
  if (!Loaded().ok()) All().planned.missing = std::string(Loaded().status().message());
  return &All().planned;
}

size_t cudnnGetVersion() { return Real().version(); }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (!Loaded().ok()) return CUDNN_STATUS_NOT_INITIALIZED;
  *handle = new cudnnContext();
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return Loaded().ok() ? Real().error(status) : "cuDNN is missing";
}
void cudnnGetLastErrorString(char* text, size_t size) {
  if (Loaded().ok()) Real().last_error(text, size);
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  const cudnnStatus_t status = Real().create(type, descriptor);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  {
    std::lock_guard lock(All().mutex);
    All().known[*descriptor] = std::make_shared<Known>(Known{type});
  }
  if (type != CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) return status;
  return psgd::planned::SetDevice(*descriptor, psgd::planned::kDeviceOfHeuristic);
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  {
    std::lock_guard lock(All().mutex);
    const auto found = All().known.find(descriptor);
    if (found->second->held) --All().planned.graphs.at(*found->second->graph).plans;
    All().known.erase(found);
  }
  return Real().destroy(descriptor);
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  if (name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE) {
    return psgd::planned::SetDevice(descriptor, psgd::planned::kDeviceOfPlan);
  }
  if (type == CUDNN_TYPE_HANDLE) return CUDNN_STATUS_SUCCESS;  // a graph needs none
  const cudnnStatus_t status = Real().set(descriptor, name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  std::lock_guard lock(All().mutex);
  psgd::planned::Note(All().known.at(descriptor).get(), name, type, count, values);
  return status;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  const cudnnStatus_t status = Real().finalize(descriptor);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  std::lock_guard lock(All().mutex);
  psgd::planned::NoteFinal(All().known.at(descriptor).get());
  return status;
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted,
                                       int64_t* count, void* values) {
  const cudnnStatus_t status = Real().get(descriptor, name, type, wanted, count, values);
  if (status != CUDNN_STATUS_SUCCESS || name != CUDNN_ATTR_ENGINEHEUR_RESULTS) return status;
  std::lock_guard lock(All().mutex);
  const auto* const results = static_cast<const cudnnBackendDescriptor_t*>(values);
  for (int64_t i = 0; i < std::min(wanted, *count); ++i) {
    All().known.at(results[i])->graph = All().known.at(descriptor)->graph;
  }
  return status;
}

// No device could run the plan.
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t,
                                  cudnnBackendDescriptor_t) {
  return CUDNN_STATUS_EXECUTION_FAILED;
}
