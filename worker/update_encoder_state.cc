// What an UpdateEncoder keeps between steps: saved, loaded, measured and pushed.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "compression/saved_state.h"
#include "worker/update_encoder.h"

namespace psgd {
namespace {

void Append(ByteSpan bytes, std::vector<float>* values) {
  std::vector<float> more(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(more.data(), bytes.data(), bytes.size());
  values->insert(values->end(), more.begin(), more.end());
}

double SquaredNorm(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

}  // namespace

absl::StatusOr<std::vector<float>> UpdateEncoder::Slice::CopyState() const {
  if (device_encoder != nullptr) return device_encoder->CopyState();
  return encoder->CopyState();
}

absl::Status UpdateEncoder::Slice::LoadState(std::span<const float> arrays) {
  if (device_encoder != nullptr) return device_encoder->LoadState(arrays);
  encoder->LoadState(arrays);
  return absl::OkStatus();
}

bool UpdateEncoder::Slice::takes_residual() const {
  return device_encoder != nullptr ? device_encoder->takes_residual() : encoder->takes_residual();
}

absl::StatusOr<std::vector<std::pair<uint32_t, Bytes>>> UpdateEncoder::CopyResiduals() const {
  std::vector<std::pair<uint32_t, Bytes>> residuals;
  for (const Tensor& tensor : tensors_) {
    for (const Slice& slice : tensor.slices) {
      PSGD_ASSIGN_OR_RETURN(const std::vector<float> state, slice.CopyState());
      if (state.empty()) continue;
      residuals.emplace_back(slice.id, MakeSavedState(state, tensor.codec->memory()));
    }
  }
  return residuals;
}

absl::StatusOr<double> UpdateEncoder::RestoreResiduals(const std::map<uint32_t, Bytes>& residuals) {
  double dropped = 0;
  for (Tensor& tensor : tensors_) {
    for (Slice& slice : tensor.slices) {
      const auto found = residuals.find(slice.id);
      if (found == residuals.end()) continue;
      const auto saved = ReadSavedState(found->second.span(), slice.spec.count());
      if (!saved) {
        return absl::DataLossError(absl::StrCat("the saved state of slice ", slice.id, " has ",
                                                found->second.size(), " bytes, which is none of ",
                                                slice.spec.count(), " elements"));
      }
      std::vector<float> arrays;
      Append(saved->residual, &arrays);
      if (!slice.takes_residual()) dropped += SquaredNorm(arrays);
      // What another codec remembered, or this one with other settings, would mean nothing.
      if (saved->memory == tensor.codec->memory()) Append(saved->remembered, &arrays);
      PSGD_RETURN_IF_ERROR(slice.LoadState(arrays));
    }
  }
  return std::sqrt(dropped);
}

absl::StatusOr<double> UpdateEncoder::ResidualNorm() const {
  double sum = 0;
  for (const Tensor& tensor : tensors_) {
    for (const Slice& slice : tensor.slices) {
      if (slice.encoder != nullptr) {
        sum += slice.encoder->SquaredNorm();
        continue;
      }
      PSGD_ASSIGN_OR_RETURN(const double squares, slice.device_encoder->SquaredNorm());
      sum += squares;
    }
  }
  return std::sqrt(sum);
}

absl::StatusOr<std::vector<FlushedSlice>> UpdateEncoder::Flush() {
  std::vector<FlushedSlice> flushed;
  for (Tensor& tensor : tensors_) {
    for (Slice& slice : tensor.slices) {
      PSGD_ASSIGN_OR_RETURN(std::vector<float> state, slice.CopyState());
      if (state.empty()) continue;
      const auto residual = std::span(state).first(slice.spec.count());
      for (float& value : residual) value *= residual_decay_;
      const double squares = SquaredNorm(residual);
      if (squares > 0) {
        std::vector<std::byte> payload;
        const bool shorter = nonzero_.Encode(residual, &payload);
        Bytes bytes = shorter ? Bytes::Adopt(std::move(payload)) : Bytes::CopyOf(AsBytes(residual));
        flushed.push_back({{slice.id, shorter ? CODEC_TOPK : CODEC_NONE, std::move(bytes)}, squares});
        Pack({&flushed.back().encoded, 1});
      }
      std::ranges::fill(state, 0.0f);
      PSGD_RETURN_IF_ERROR(slice.LoadState(state));
    }
  }
  return flushed;
}

}  // namespace psgd
