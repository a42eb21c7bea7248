#include "worker/install_slice.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/lossless.h"
#include "compression/low_rank/factor_updates.h"
#include "compression/slice_shape.h"

namespace psgd {
namespace {

void Replace(PayloadReader& reader, std::span<float> weights) {
  if (const auto direct = reader.Direct(); !direct.empty()) {
    std::memcpy(weights.data(), direct.data(), direct.size_bytes());
  } else {
    std::ranges::fill(weights, 0.0f);
    reader.AddBlock(1.0f, weights);
  }
}

absl::Status Change(PayloadReader& reader, std::span<float> weights) {
  if (!reader.sparse())
    return absl::DataLossError("changes came in a codec that names no elements");
  constexpr size_t kEntries = 512;
  uint32_t indices[kEntries];
  float values[kEntries];
  while (const size_t count = reader.NextEntries(indices, values)) {
    for (size_t i = 0; i < count; ++i) weights[indices[i]] = values[i];
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status InstallSlice(const CodecTable& codecs, const SliceShape& shape,
                          const PulledSlice& pulled, std::span<float> weights) {
  const Codec* codec = codecs.Find(pulled.codec);
  if (codec == nullptr) {
    return DataLossError("weights came in an unknown codec, ", pulled.codec);
  }
  PSGD_ASSIGN_OR_RETURN(const Bytes payload,
                        Unpack(pulled.payload, pulled.planes, codec->MaxPayload(shape.elements)));
  if (pulled.form == PullPart::UPDATES) {
    const auto none = [](uint64_t) { return Bytes(); };
    return ApplyFactorUpdates(*codec, payload.span(), none, {&shape, 1}, {&weights, 1});
  }
  PSGD_ASSIGN_OR_RETURN(const auto reader, codec->Open(payload.span(), shape));
  switch (pulled.form) {
    case PullPart::CHANGED:
      return Change(*reader, weights);
    case PullPart::DIFFERENCE:
      reader->AddBlock(1.0f, weights);
      return absl::OkStatus();
    default:
      Replace(*reader, weights);
      return absl::OkStatus();
  }
}

PullInstaller::PullInstaller(const CodecTable& codecs, const ModelSpec& model,
                             const Placement& placement, const PushedFactors& own, Before had,
                             Weights weights)
    : codecs_(codecs),
      model_(model),
      placement_(placement),
      own_(own),
      had_(std::move(had)),
      weights_(std::move(weights)),
      left_(static_cast<size_t>(model.parameters_size())) {
  for (const SliceSpec& slice : placement.slices()) ++left_[slice.parameter()];
}

absl::Status PullInstaller::Install(uint32_t id, const PulledSlice& pulled) {
  const SliceSpec& spec = placement_.slices(static_cast<int>(id));
  const int index = static_cast<int>(spec.parameter());
  const ParameterSpec& parameter = model_.parameters(index);
  const std::span<float> target = weights_(index).subspan(spec.offset(), spec.count());
  const std::span<const float> before = had_(index).subspan(spec.offset(), spec.count());
  if (pulled.form != PullPart::WHOLE && before.data() != target.data()) {
    std::memcpy(target.data(), before.data(), target.size_bytes());
  }
  if (pulled.form == PullPart::UPDATES) {
    waiting_[index].emplace(id, pulled);
  } else {
    PSGD_RETURN_IF_ERROR(Annotate(InstallSlice(codecs_, ShapeOf(spec, parameter), pulled, target),
                                  absl::StrCat("slice ", id, " of ", parameter.name())));
  }
  if (--left_[static_cast<size_t>(index)] > 0) return absl::OkStatus();
  const auto waiting = waiting_.find(index);
  if (waiting == waiting_.end()) return absl::OkStatus();
  const absl::Status applied = ApplyShared(parameter, waiting->second, weights_(index));
  waiting_.erase(waiting);
  return applied;
}

absl::Status PullInstaller::ApplyShared(const ParameterSpec& parameter,
                                        const std::map<uint32_t, PulledSlice>& slices,
                                        std::span<float> weights) const {
  struct Updates {
    uint32_t first = 0;  // slice
    const PulledSlice* pulled = nullptr;
    std::vector<SliceShape> shapes;
    std::vector<std::span<float>> weights;
  };
  std::map<const std::byte*, Updates> shared;  // by their payload
  for (const auto& [id, pulled] : slices) {
    const SliceSpec& spec = placement_.slices(static_cast<int>(id));
    Updates& updates = shared[pulled.payload.data()];
    if (updates.pulled == nullptr) {
      updates.first = id;
      updates.pulled = &pulled;
    } else if (updates.pulled->codec != pulled.codec || updates.pulled->planes != pulled.planes) {
      return DataLossError("slices ", updates.first, " and ", id,
                           " came with one payload, but are not of one codec and packing");
    }
    updates.shapes.push_back(ShapeOf(spec, parameter));
    updates.weights.push_back(weights.subspan(spec.offset(), spec.count()));
  }
  for (const auto& [payload, updates] : shared) {
    const Codec* codec = codecs_.Find(updates.pulled->codec);
    if (codec == nullptr) return absl::DataLossError("updates came in an unknown codec");
    const auto pushed = [&, first = updates.first](uint64_t clock) {
      return own_.At(first, clock);
    };
    const std::string what = absl::StrCat("updates of ", parameter.name());
    const auto plain = Unpack(updates.pulled->payload, updates.pulled->planes,
                              codec->MaxSharedPayload(updates.shapes));
    PSGD_RETURN_IF_ERROR(Annotate(plain.status(), what));
    PSGD_RETURN_IF_ERROR(Annotate(
        ApplyFactorUpdates(*codec, plain->span(), pushed, updates.shapes, updates.weights), what));
  }
  return absl::OkStatus();
}

absl::Status InstallPulled(const std::vector<PulledSlice>& pulled, PullInstaller installer) {
  for (uint32_t id = 0; id < pulled.size(); ++id)
    PSGD_RETURN_IF_ERROR(installer.Install(id, pulled[id]));
  return absl::OkStatus();
}

}  // namespace psgd
