#include "engine/cudnn/group.h"

#include <nccl.h>

#include <functional>
#include <iterator>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/loaded_library.h"
#include "common/status.h"

namespace psgd::cudnn {
namespace {

// The functions of libnccl, which is loaded when it is needed.
struct Nccl {
  static absl::StatusOr<const Nccl*> Load();

  absl::Status Check(ncclResult_t result, const char* call) const {
    if (result == ncclSuccess) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(call, ": ", error_string(result)));
  }

  // NCCL launches the reductions that `work` asks for as one.
  absl::Status Together(const std::function<absl::Status()>& work) const {
    PSGD_RETURN_IF_ERROR(Check(group_start(), "ncclGroupStart"));
    absl::Status status = work();
    status.Update(Check(group_end(), "ncclGroupEnd"));
    return status;
  }

  decltype(&ncclCommInitAll) comm_init_all = nullptr;
  decltype(&ncclCommAbort) comm_abort = nullptr;
  decltype(&ncclRedOpCreatePreMulSum) create_weighted_sum = nullptr;
  decltype(&ncclReduce) reduce = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
};

absl::StatusOr<Nccl> Open() {
  PSGD_ASSIGN_OR_RETURN(
      LoadedLibrary library,
      LoadedLibrary::Load("libnccl.so.2",
                          "node.reduce: nccl needs NCCL: install libnccl2, name its folder in "
                          "LD_LIBRARY_PATH, or use node.reduce: host"));
  Nccl nccl;
  library.Find("ncclCommInitAll", &nccl.comm_init_all);
  library.Find("ncclCommAbort", &nccl.comm_abort);
  library.Find("ncclRedOpCreatePreMulSum", &nccl.create_weighted_sum);
  library.Find("ncclReduce", &nccl.reduce);
  library.Find("ncclGroupStart", &nccl.group_start);
  library.Find("ncclGroupEnd", &nccl.group_end);
  library.Find("ncclGetErrorString", &nccl.error_string);
  PSGD_RETURN_IF_ERROR(library.FoundAll("NCCL 2.11 and later have it"));
  return nccl;
}

absl::StatusOr<const Nccl*> Nccl::Load() {
  static const absl::StatusOr<Nccl> loaded = Open();
  PSGD_RETURN_IF_ERROR(loaded.status());
  return &*loaded;
}

absl::Status Aborted() { return absl::AbortedError("another GPU of the group failed"); }

class NcclPart : public GroupPart {
 public:
  NcclPart(const Nccl& nccl, ncclComm_t comm, Device* device)
      : nccl_(nccl), index_(device->index()), device_(*device), comm_(comm) {}

  // The device may be gone.
  ~NcclPart() override {
    cudaSetDevice(index_);
    Abort();
    if (aborting_.joinable()) aborting_.join();
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    cudaFree(share_);
  }

  absl::Status Prepare(size_t parts) {
    device_.Enter();
    int last = 0, first = 0;
    PSGD_CUDA(cudaDeviceGetStreamPriorityRange(&last, &first));
    // Parts wait for each other in a sum, so a sum goes before the blocks of running kernels.
    PSGD_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, first));
    device_.set_gradients(stream_);
    PSGD_CUDA(cudaMalloc(reinterpret_cast<void**>(&share_), sizeof(float)));
    float of_mean = 1.0f / static_cast<float>(parts);
    PSGD_RETURN_IF_ERROR(
        nccl_.Check(nccl_.create_weighted_sum(&sum_, share_, ncclFloat, ncclScalarDevice, comm_),
                    "ncclRedOpCreatePreMulSum"));
    return nccl_.Check(
        nccl_.create_weighted_sum(&mean_, &of_mean, ncclFloat, ncclScalarHostImmediate, comm_),
        "ncclRedOpCreatePreMulSum");
  }

  absl::Status Begin(float share) override {
    {
      const std::lock_guard lock(mutex_);
      if (comm_ == nullptr) return Aborted();
    }
    // `share` is not pinned, so the call reads it before it returns.
    return CheckCall(
        cudaMemcpyAsync(share_, &share, sizeof share, cudaMemcpyHostToDevice, device_.stream()),
        "cudaMemcpyAsync");
  }

  absl::Status Reduce(std::span<const GroupGradient> bucket) override {
    const auto launch = [this, kept = std::vector(bucket.begin(), bucket.end())] {
      return Launch(kept);
    };
    return device_.MakeCall(launch, RecordedStep::kLeastWeight);
  }

  absl::Status End() override { return device_.Order(stream_, device_.stream()); }

  // Running sums end at once. A thread frees what NCCL has, because that may take a while.
  void Abort() override {
    const std::lock_guard lock(mutex_);
    const ncclComm_t comm = std::exchange(comm_, nullptr);
    if (comm != nullptr) aborting_ = std::thread([this, comm] { nccl_.comm_abort(comm); });
  }

  // REQUIRES: called between ncclGroupStart and ncclGroupEnd.
  absl::Status Add(const GroupGradient& of) {
    return nccl_.Check(nccl_.reduce(of.data, of.data, of.count, ncclFloat, of.mean ? mean_ : sum_,
                                    /*root=*/0, comm_, stream_),
                       "ncclReduce");
  }
  // A sum of numbers that nobody reads.
  absl::Status AddNothing() {
    device_.Enter();
    return Add({.data = share_, .count = 1, .mean = true});
  }

 private:
  absl::Status Launch(const std::vector<GroupGradient>& bucket) {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr) return Aborted();
    PSGD_RETURN_IF_ERROR(device_.Order(device_.stream(), stream_));
    const absl::Status launched = nccl_.Together([&] {
      absl::Status status;
      for (const GroupGradient& of : bucket) status.Update(Add(of));
      return status;
    });
    cudaGetLastError();  // NCCL may leave "not ready" there, which the next launch would report
    return launched;
  }

  const Nccl& nccl_;
  const int index_;
  Device& device_;
  cudaStream_t stream_ = nullptr;  // of the sums
  // Held while NCCL launches, which waits for no other part unless CUDA_LAUNCH_BLOCKING or
  // NCCL_LAUNCH_MODE=GROUP says so.
  std::mutex mutex_;
  ncclComm_t comm_;         // null: the group was aborted
  float* share_ = nullptr;  // in device memory, where sums read it
  ncclRedOp_t sum_{}, mean_{};
  std::thread aborting_;
};

// NCCL connects devices in their first sum, for which each waits for all. Afterwards no launch
// waits for a part, which may have failed: all sums use the same algorithm, a ring.
absl::Status Connect(const Nccl& nccl, std::span<const std::unique_ptr<NcclPart>> parts) {
  PSGD_RETURN_IF_ERROR(nccl.Together([&] {
    absl::Status status;
    for (const auto& part : parts) status.Update(part->AddNothing());
    return status;
  }));
  for (const auto& part : parts) PSGD_RETURN_IF_ERROR(part->End());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<GroupPart>>> MakeGroup(
    std::span<Device* const> devices) {
  PSGD_ASSIGN_OR_RETURN(const Nccl* nccl, Nccl::Load());
  std::vector<int> indices;
  for (const Device* device : devices) indices.push_back(device->index());
  if (std::set<int>(indices.begin(), indices.end()).size() < indices.size()) {
    return absl::InvalidArgumentError(
        "node.reduce: nccl takes a GPU but once; name others in --gpu, or use node.reduce: host");
  }
  std::vector<ncclComm_t> comms(indices.size());
  PSGD_RETURN_IF_ERROR(
      nccl->Check(nccl->comm_init_all(comms.data(), static_cast<int>(comms.size()), indices.data()),
                  "ncclCommInitAll"));
  std::vector<std::unique_ptr<NcclPart>> parts;
  for (size_t i = 0; i < comms.size(); ++i) {
    parts.push_back(std::make_unique<NcclPart>(*nccl, comms[i], devices[i]));
  }
  for (const auto& part : parts) PSGD_RETURN_IF_ERROR(part->Prepare(comms.size()));
  PSGD_RETURN_IF_ERROR(Connect(*nccl, parts));
  return std::vector<std::unique_ptr<GroupPart>>(std::move_iterator(parts.begin()),
                                                 std::move_iterator(parts.end()));
}

}  // namespace psgd::cudnn
