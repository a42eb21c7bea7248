#include "server/shard/loaded_checkpoint.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/program_state.h"
#include "compression/saved_state.h"
#include "server/shard/placement.h"
#include "server/shard/snapshot.h"

namespace psgd {
namespace {

absl::Status NotSound(const std::string& what) {
  return DataLossError("the checkpoint contradicts itself: ", what);
}

// The slices of the whole checkpoint, by id: exactly the placement's slices.
absl::StatusOr<std::vector<const SliceSnapshot*>> SlicesById(
    const CheckpointManifest& manifest, const std::vector<ShardSnapshot>& shards) {
  const Placement& placement = manifest.placement();
  std::vector<const SliceSnapshot*> slices(placement.slices_size());
  if (static_cast<size_t>(manifest.shards_size()) != shards.size()) {
    return NotSound("it lacks a shard");
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    for (const SliceSnapshot& slice : shards[i].slices) {
      const std::string name = absl::StrCat("slice ", slice.id);
      if (slice.id >= slices.size()) return NotSound(name + " is not in the placement");
      const SliceSpec& spec = placement.slices(static_cast<int>(slice.id));
      if (spec.shard() != manifest.shards(static_cast<int>(i)).shard() ||
          spec.SerializeAsString() != slice.spec.SerializeAsString()) {
        return NotSound(name + " is not where the placement says");
      }
      if (slices[slice.id] != nullptr) return NotSound(name + " is there twice");
      slices[slice.id] = &slice;
      const size_t bytes = size_t{spec.count()} * sizeof(float);
      bool fits = slice.weights.size() == bytes;
      for (const auto& [state, values] : slice.states) fits = fits && values.size() == bytes;
      if (!fits) return NotSound(name + " has an array of the wrong length");
    }
  }
  for (size_t id = 0; id < slices.size(); ++id) {
    if (slices[id] == nullptr) return NotSound(absl::StrCat("slice ", id, " is missing"));
  }
  return slices;
}

// Joins the parts of an array, in order. A single part is not copied.
Bytes Join(const std::vector<Bytes>& parts) {
  if (parts.size() == 1) return parts[0];
  std::vector<std::byte> joined;
  size_t size = 0;
  for (const Bytes& part : parts) size += part.size();
  joined.reserve(size);
  for (const Bytes& part : parts) {
    joined.insert(joined.end(), part.span().begin(), part.span().end());
  }
  return Bytes::Adopt(std::move(joined));
}

bool Overlaps(uint64_t a, uint64_t a_count, uint64_t b, uint64_t b_count) {
  return a < b + b_count && b < a + a_count;
}

}  // namespace

absl::StatusOr<LoadedCheckpoint> LoadedCheckpoint::Assemble(
    CheckpointManifest manifest, const std::vector<ShardSnapshot>& shards) {
  LoadedCheckpoint loaded;
  loaded.manifest_ = std::move(manifest);
  PSGD_RETURN_IF_ERROR(ValidateModel(loaded.manifest_.model()));
  PSGD_ASSIGN_OR_RETURN(const auto slices, SlicesById(loaded.manifest_, shards));
  std::vector<std::vector<const SliceSnapshot*>> by_parameter(
      loaded.manifest_.model().parameters_size());
  for (const SliceSnapshot* slice : slices) {
    if (slice->spec.parameter() >= by_parameter.size()) {
      return NotSound(absl::StrCat("slice ", slice->id, " is of no parameter"));
    }
    by_parameter[slice->spec.parameter()].push_back(slice);
  }
  for (size_t i = 0; i < by_parameter.size(); ++i) {
    PSGD_RETURN_IF_ERROR(loaded.AddTensor(loaded.manifest_.model().parameters(static_cast<int>(i)),
                                          std::move(by_parameter[i])));
  }
  for (const ShardSnapshot& shard : shards) {
    for (const auto& [worker, residuals] : shard.residuals) {
      for (const auto& [slice, values] : residuals) {
        if (IsProgramPart(slice)) {
          if (!FitsProgramPart(slice, values.size()) ||
              !loaded.programs_[worker].emplace(slice, values).second) {
            return NotSound(absl::StrCat("the state of worker ", worker, "'s program"));
          }
          continue;
        }
        if (slice >= slices.size()) return NotSound("a residual is of no slice");
        PSGD_RETURN_IF_ERROR(loaded.AddResidual(worker, *slices[slice], values));
      }
    }
  }
  return loaded;
}

absl::Status LoadedCheckpoint::AddTensor(const ParameterSpec& parameter,
                                         std::vector<const SliceSnapshot*> slices) {
  std::ranges::sort(slices, [](const SliceSnapshot* a, const SliceSnapshot* b) {
    return a->spec.offset() < b->spec.offset();
  });
  Tensor tensor;
  std::vector<Bytes> weights;
  std::vector<std::vector<Bytes>> states;
  for (const SliceSnapshot* slice : slices) {
    if (slice->parameter != parameter.name() || slice->spec.offset() != tensor.elements) {
      return NotSound(absl::StrCat("slice ", slice->id, " does not fit ", parameter.name()));
    }
    if (tensor.slices.empty()) {
      for (const auto& [name, values] : slice->states) tensor.states.emplace_back(name, Bytes());
      states.resize(slice->states.size());
    }
    if (slice->states.size() != states.size()) {
      return NotSound(absl::StrCat("slices of ", parameter.name(), " differ in optimizer state"));
    }
    for (size_t i = 0; i < states.size(); ++i) {
      if (slice->states[i].first != tensor.states[i].first) {
        return NotSound(absl::StrCat("slices of ", parameter.name(), " differ in optimizer state"));
      }
      states[i].push_back(slice->states[i].second);
    }
    weights.push_back(slice->weights);
    tensor.slices.push_back(
        {slice->spec.offset(), slice->spec.count(), slice->version, slice->steps});
    tensor.elements += slice->spec.count();
  }
  if (tensor.elements != ElementsOf(parameter)) {
    return NotSound(absl::StrCat(parameter.name(), " has ", tensor.elements, " of ",
                                 ElementsOf(parameter), " elements"));
  }
  tensor.weights = Join(weights);
  for (size_t i = 0; i < states.size(); ++i) tensor.states[i].second = Join(states[i]);
  tensors_.emplace(parameter.name(), std::move(tensor));
  return absl::OkStatus();
}

absl::Status LoadedCheckpoint::AddResidual(uint32_t worker, const SliceSnapshot& slice,
                                           const Bytes& values) {
  if (!ReadSavedState(values.span(), slice.spec.count())) {
    return NotSound(absl::StrCat("the residual of worker ", worker, " for slice ", slice.id,
                                 " has the wrong length"));
  }
  std::vector<Residual>& residuals = tensors_.at(slice.parameter).residuals[worker];
  const bool again = std::ranges::any_of(
      residuals, [&](const Residual& other) { return other.offset == slice.spec.offset(); });
  if (again) {
    return NotSound(absl::StrCat("worker ", worker, " has two residuals for slice ", slice.id));
  }
  residuals.push_back({slice.spec.offset(), slice.spec.count(), values});
  return absl::OkStatus();
}

Bytes LoadedCheckpoint::Weights(absl::string_view parameter) const {
  const auto found = tensors_.find(std::string(parameter));
  return found == tensors_.end() ? Bytes() : found->second.weights;
}

Bytes LoadedCheckpoint::State(absl::string_view parameter, absl::string_view state) const {
  const auto found = tensors_.find(std::string(parameter));
  if (found == tensors_.end()) return Bytes();
  for (const auto& [name, values] : found->second.states) {
    if (name == state) return values;
  }
  return Bytes();
}

Bytes LoadedCheckpoint::CutResidual(const std::vector<Residual>& residuals, uint64_t offset,
                                    uint64_t count) {
  std::vector<float> residual, remembered;  // zeros where nothing is stored
  uint32_t memory = 0;
  for (const Residual& stored : residuals) {
    if (!Overlaps(stored.offset, stored.count, offset, count)) continue;
    if (stored.offset == offset && stored.count == count) return stored.values;
    const SavedState state = *ReadSavedState(stored.values.span(), stored.count);
    // The memories of different codecs cannot be joined.
    if (residual.empty()) {
      memory = state.memory;
    } else if (memory != state.memory) {
      memory = 0;
    }
    residual.resize(count);
    remembered.resize(count);
    const uint64_t begin = std::max(stored.offset, offset);
    const uint64_t end = std::min(stored.offset + stored.count, offset + count);
    const auto copy = [&](ByteSpan from, std::vector<float>* to) {
      if (from.empty()) return;
      std::memcpy(to->data() + (begin - offset),
                  from.data() + (begin - stored.offset) * sizeof(float),
                  (end - begin) * sizeof(float));
    };
    copy(state.residual, &residual);
    copy(state.remembered, &remembered);
  }
  if (residual.empty()) return Bytes();
  if (memory != 0) residual.insert(residual.end(), remembered.begin(), remembered.end());
  return MakeSavedState(residual, memory);
}

std::map<uint32_t, std::map<uint32_t, Bytes>> LoadedCheckpoint::ProgramStates(
    uint32_t workers) const {
  auto states = programs_;
  states.erase(states.lower_bound(workers), states.end());
  if (const auto first = programs_.find(0); first != programs_.end()) {
    for (uint32_t worker = 0; worker < workers; ++worker) states.try_emplace(worker, first->second);
  }
  return states;
}

absl::StatusOr<SliceContents> LoadedCheckpoint::Extract(absl::string_view parameter,
                                                        uint64_t offset, uint64_t count) const {
  const auto found = tensors_.find(std::string(parameter));
  if (found == tensors_.end()) {
    return FailedPreconditionError("the checkpoint has no parameter ", std::string(parameter),
                                   "; was it taken with another model?");
  }
  const Tensor& tensor = found->second;
  if (offset > tensor.elements || count > tensor.elements - offset) {
    return FailedPreconditionError("the checkpoint's ", std::string(parameter), " has ",
                                   tensor.elements, " elements where the model has at least ",
                                   offset + count, "; was it taken with another model?");
  }
  const size_t begin = offset * sizeof(float), bytes = count * sizeof(float);
  SliceContents contents;
  for (const Range& slice : tensor.slices) {
    if (!Overlaps(slice.offset, slice.count, offset, count)) continue;
    contents.version = std::max(contents.version, slice.version);
    contents.steps = std::max(contents.steps, slice.steps);
  }
  contents.weights = tensor.weights.Sub(begin, bytes);
  for (const auto& [name, values] : tensor.states) {
    contents.states.emplace_back(name, values.Sub(begin, bytes));
  }
  for (const auto& [worker, residuals] : tensor.residuals) {
    Bytes cut = CutResidual(residuals, offset, count);
    if (!cut.empty()) contents.residuals.emplace(worker, std::move(cut));
  }
  return contents;
}

}  // namespace psgd
