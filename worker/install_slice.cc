#include "worker/install_slice.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

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

// Of slices that share a payload.
struct SharedUpdates {
  uint32_t first = 0;  // slice
  const PulledSlice* pulled = nullptr;
  const ParameterSpec* parameter = nullptr;
  std::vector<SliceShape> shapes;
  std::vector<std::span<float>> weights;
};

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

absl::Status InstallPulled(const CodecTable& codecs, const ModelSpec& model,
                           const Placement& placement, const std::vector<PulledSlice>& pulled,
                           const PushedFactors& own,
                           const std::function<std::span<const float>(int)>& had,
                           const std::function<std::span<float>(int)>& weights) {
  std::map<const std::byte*, SharedUpdates> shared;  // by their payload
  for (int id = 0; id < placement.slices_size(); ++id) {
    const SliceSpec& spec = placement.slices(id);
    const int index = static_cast<int>(spec.parameter());
    const ParameterSpec& parameter = model.parameters(index);
    const std::span<float> target = weights(index).subspan(spec.offset(), spec.count());
    const std::span<const float> before = had(index).subspan(spec.offset(), spec.count());
    if (pulled[id].form != PullPart::WHOLE && before.data() != target.data()) {
      std::memcpy(target.data(), before.data(), target.size_bytes());
    }
    if (pulled[id].form == PullPart::UPDATES) {
      SharedUpdates& updates = shared[pulled[id].payload.data()];
      if (updates.pulled == nullptr) {
        updates.first = static_cast<uint32_t>(id);
      } else if (updates.parameter != &parameter || updates.pulled->codec != pulled[id].codec ||
                 updates.pulled->planes != pulled[id].planes) {
        return DataLossError(
            "slices ", updates.first, " and ", id,
            " came with one payload, but are not of one tensor, codec and packing");
      }
      updates.pulled = &pulled[id];
      updates.parameter = &parameter;
      updates.shapes.push_back(ShapeOf(spec, parameter));
      updates.weights.push_back(target);
      continue;
    }
    PSGD_RETURN_IF_ERROR(
        Annotate(InstallSlice(codecs, ShapeOf(spec, parameter), pulled[id], target),
                 absl::StrCat("slice ", id, " of ", parameter.name())));
  }
  for (const auto& [payload, updates] : shared) {
    const Codec* codec = codecs.Find(updates.pulled->codec);
    if (codec == nullptr) return absl::DataLossError("updates came in an unknown codec");
    const auto pushed = [&, first = updates.first](uint64_t clock) { return own.At(first, clock); };
    const std::string what = absl::StrCat("updates of ", updates.parameter->name());
    const auto plain = Unpack(updates.pulled->payload, updates.pulled->planes,
                              codec->MaxSharedPayload(updates.shapes));
    PSGD_RETURN_IF_ERROR(Annotate(plain.status(), what));
    PSGD_RETURN_IF_ERROR(Annotate(
        ApplyFactorUpdates(*codec, plain->span(), pushed, updates.shapes, updates.weights), what));
  }
  return absl::OkStatus();
}

}  // namespace psgd
