#include "engine/cudnn/group.h"

#include <nccl.h>

#include <atomic>
#include <set>
#include <thread>

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

  decltype(&ncclCommInitAll) comm_init_all = nullptr;
  decltype(&ncclCommAbort) comm_abort = nullptr;
  decltype(&ncclRedOpCreatePreMulSum) create_weighted_sum = nullptr;
  decltype(&ncclReduce) reduce = nullptr;
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
  NcclPart(const Nccl& nccl, ncclComm_t comm, const Device& device)
      : nccl_(nccl), device_(device.index()), stream_(device.stream()), comm_(comm) {}

  ~NcclPart() override {
    cudaSetDevice(device_);
    Abort();
    if (aborting_.joinable()) aborting_.join();
    cudaFree(share_);
  }

  absl::Status Prepare(size_t parts) {
    PSGD_CUDA(cudaSetDevice(device_));
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
    if (comm_ == nullptr) return Aborted();
    // `share` is not pinned, so the call reads it before it returns.
    return CheckCall(cudaMemcpyAsync(share_, &share, sizeof share, cudaMemcpyHostToDevice, stream_),
                     "cudaMemcpyAsync");
  }

  absl::Status Reduce(float* gradient, size_t count, bool mean) override {
    const ncclComm_t comm = comm_;
    if (comm == nullptr) return Aborted();
    return nccl_.Check(nccl_.reduce(gradient, gradient, count, ncclFloat, mean ? mean_ : sum_,
                                    /*root=*/0, comm, stream_),
                       "ncclReduce");
  }

  // Running sums end at once. A thread finishes the abort when no recording uses NCCL any more.
  void Abort() override {
    const ncclComm_t comm = comm_.exchange(nullptr);
    if (comm != nullptr) aborting_ = std::thread([this, comm] { nccl_.comm_abort(comm); });
  }

 private:
  const Nccl& nccl_;
  const int device_;
  const cudaStream_t stream_;
  std::atomic<ncclComm_t> comm_;
  float* share_ = nullptr;  // in device memory, where recorded sums read it
  ncclRedOp_t sum_{}, mean_{};
  std::thread aborting_;
};

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<GroupPart>>> MakeGroup(
    std::span<const Device* const> devices) {
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
  std::vector<std::unique_ptr<GroupPart>> parts;
  absl::Status prepared;
  for (size_t i = 0; i < comms.size(); ++i) {
    auto part = std::make_unique<NcclPart>(*nccl, comms[i], *devices[i]);
    prepared.Update(part->Prepare(comms.size()));
    parts.push_back(std::move(part));
  }
  PSGD_RETURN_IF_ERROR(prepared);
  return parts;
}

}  // namespace psgd::cudnn
