// The functions of NCCL that the engine calls. In a sum the streams of all devices meet, so a
// device that is behind makes the others wait. What NCCL forbids without noticing ends the program.
#include <nccl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/fakes/emulated_cuda/runtime.h"

namespace psgd::emulated {
namespace {

struct Clique;

// What a part multiplies its values by.
struct Factor {
  float value = 1;
  const float* on_device = nullptr;  // if set: where it is read when the devices add up
};

// A part's call of ncclReduce.
struct Reduction {
  bool IsLike(const Reduction& other) const {
    return count == other.count && operation == other.operation && root == other.root;
  }

  const float* from = nullptr;
  float* to = nullptr;
  size_t count = 0;
  int operation = 0, root = 0;
};

}  // namespace
}  // namespace psgd::emulated

// It stays after its end, so that a later use is found.
struct ncclComm {
  psgd::emulated::Clique* clique = nullptr;
  int rank = 0, device = 0;
  bool ended = false;
  std::vector<psgd::emulated::Factor> factors;  // by operation of this part, from ncclNumOps on
  uint64_t sums = 0;                            // launched so far
};

namespace psgd::emulated {
namespace {

struct Sum : queued::Meeting {
  explicit Sum(size_t parts) : Meeting(parts), reductions(parts) {}
  std::vector<Reduction> reductions;  // by part
};

// The parts that add up, and the sums that are not over, by number.
struct Clique {
  std::vector<ncclComm> parts;
  std::map<uint64_t, std::shared_ptr<Sum>> sums;
};

// What the calling thread asked for between ncclGroupStart and ncclGroupEnd.
struct Asked {
  ncclComm* part;
  cudaStream_t stream;
  Reduction reduction;
};
thread_local int groups = 0;
thread_local std::vector<Asked> asked_in_group;

// The order of the parts is another than the host's.
void AddUp(const Clique& clique, const std::vector<Reduction>& reductions) {
  const Reduction& any = reductions[0];
  std::vector<float> sums(any.count);
  for (size_t i = reductions.size(); i-- > 0;) {
    Factor factor;
    if (any.operation >= ncclNumOps) {
      factor = clique.parts[i].factors[static_cast<size_t>(any.operation - ncclNumOps)];
    }
    const float by = factor.on_device != nullptr ? *factor.on_device : factor.value;
    for (size_t k = 0; k < any.count; ++k) sums[k] += by * reductions[i].from[k];
  }
  std::ranges::copy(sums, reductions[static_cast<size_t>(any.root)].to);
}

void Launch(const Asked& asked) {
  ncclComm& part = *asked.part;
  if (part.ended) return;
  Clique& clique = *part.clique;
  const uint64_t number = part.sums++;
  std::shared_ptr<Sum>& place = clique.sums[number];
  if (place == nullptr) {
    place = std::make_shared<Sum>(clique.parts.size());
    place->work = [&clique, number] {
      const auto met = clique.sums.extract(number);
      AddUp(clique, met.mapped()->reductions);
    };
  }
  const std::shared_ptr<Sum> sum = place;  // the meeting may be over before Meet returns
  for (size_t other = 0; other < clique.parts.size(); ++other) {
    const bool launched = sum->members[other].stream != queued::Meeting::kAbsent;
    if (!launched || asked.reduction.IsLike(sum->reductions[other])) continue;
    std::fprintf(stderr, "parts %d and %zu of a group reduce differently in their call %llu\n",
                 part.rank, other, static_cast<unsigned long long>(number));
    std::abort();
  }
  const auto rank = static_cast<size_t>(part.rank);
  sum->reductions[rank] = asked.reduction;
  Meet(asked.stream, sum, rank);
}

bool Ended(const ncclComm& part) {
  bool ended = false;
  Call([&] { ended = part.ended; });
  return ended;
}

ncclResult_t LaunchAsked() {
  for (const Asked& asked : std::exchange(asked_in_group, {})) {
    Call([asked] { Launch(asked); });
  }
  return ncclSuccess;
}

}  // namespace
}  // namespace psgd::emulated

#pragma GCC visibility push(default)

using psgd::emulated::asked_in_group;
using psgd::emulated::Clique;
using psgd::emulated::Ended;
using psgd::emulated::groups;

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  if (std::any_of(devices, devices + count,
                  [](int device) { return device < 0 || device >= psgd::emulated::kDevices; })) {
    return ncclInvalidArgument;
  }
  if (std::set<int>(devices, devices + count).size() < static_cast<size_t>(count)) {
    return ncclInvalidUsage;
  }
  static std::vector<std::unique_ptr<Clique>>* const all = new std::vector<std::unique_ptr<Clique>>;
  psgd::emulated::Call([&] {
    Clique& clique = *all->emplace_back(std::make_unique<Clique>());
    clique.parts.resize(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      comms[i] = &clique.parts[static_cast<size_t>(i)];
      comms[i]->clique = &clique;
      comms[i]->rank = i;
      comms[i]->device = devices[i];
    }
  });
  return ncclSuccess;
}

// Only the part's own stream goes on.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  ncclResult_t result = ncclSuccess;
  psgd::emulated::Call([&] {
    if (std::exchange(comm->ended, true)) result = ncclInvalidArgument;
    for (const auto& [number, sum] : comm->clique->sums) {
      sum->members[static_cast<size_t>(comm->rank)].leaves = true;
    }
  });
  return result;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* made, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  if (type != ncclFloat || Ended(*comm)) return ncclInvalidArgument;
  const auto* const value = static_cast<const float*>(scalar);
  const bool on_device = residence == ncclScalarDevice;
  psgd::emulated::Call([&] {
    *made = static_cast<ncclRedOp_t>(ncclNumOps + static_cast<int>(comm->factors.size()));
    comm->factors.push_back({on_device ? 1 : *value, on_device ? value : nullptr});
  });
  return ncclSuccess;
}

ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                        ncclRedOp_t operation, int root, ncclComm_t comm, cudaStream_t stream) {
  const bool known =
      operation == ncclSum || (operation >= ncclNumOps &&
                               static_cast<size_t>(operation - ncclNumOps) < comm->factors.size());
  if (type != ncclFloat || !known || root < 0 ||
      static_cast<size_t>(root) >= comm->clique->parts.size() || Ended(*comm)) {
    return ncclInvalidArgument;
  }
  // NCCL itself can be recorded. The engine's sums lie between its graphs (recorded_step.h).
  if (psgd::emulated::CurrentDevice() != comm->device ||
      psgd::emulated::DeviceOf(stream) != comm->device || psgd::emulated::Recording()) {
    return ncclInvalidUsage;
  }
  asked_in_group.push_back(
      {comm,
       stream,
       {static_cast<const float*>(from), static_cast<float*>(to), count, operation, root}});
  return groups > 0 ? ncclSuccess : psgd::emulated::LaunchAsked();
}

ncclResult_t ncclGroupStart() {
  ++groups;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (groups == 0) return ncclInvalidUsage;
  return --groups > 0 ? ncclSuccess : psgd::emulated::LaunchAsked();
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    default:
      return "an error of the emulation";
  }
}

#pragma GCC visibility pop
