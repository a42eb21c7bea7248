#include "bench/device_codec_bench.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "bench/codec_cases.h"
#include "compression/error_feedback.h"
#include "compression/twin_options.h"

namespace psgd {
namespace {

// A codec that encodes all slices on a device and, for comparison, on the host.
class DeviceSubject {
 public:
  static absl::StatusOr<std::unique_ptr<DeviceSubject>> Create(const Codec& codec,
                                                               const std::vector<float>& gradient,
                                                               const CodecBenchOptions& options) {
    auto subject = std::make_unique<DeviceSubject>();
    PSGD_ASSIGN_OR_RETURN(subject->there_, options.device->Upload(gradient));
    for (size_t begin = 0; begin < gradient.size(); begin += options.slice) {
      const SliceShape shape = BenchedSlice(gradient.size(), begin, options.slice);
      Slice slice;
      slice.gradient = std::span(gradient).subspan(begin, shape.elements);
      slice.begin = begin;
      PSGD_ASSIGN_OR_RETURN(slice.twin,
                            options.device->NewEncoder(*MakeTwinOptions(codec, shape, {})));
      slice.host = std::make_unique<ErrorFeedback>(codec, shape);
      subject->slices_.push_back(std::move(slice));
    }
    return subject;
  }

  absl::Status Encode() {
    ++step_;
    for (size_t s = 0; s < slices_.size(); ++s) {
      DeviceEncodeInput input;
      input.gradient = there_->data() + slices_[s].begin;
      input.key = BenchedKey(s);
      input.step = step_;
      PSGD_RETURN_IF_ERROR(slices_[s].twin->Start(input, nullptr));
    }
    payload_bytes_ = 0;
    for (Slice& slice : slices_) {
      PSGD_ASSIGN_OR_RETURN(slice.payload, slice.twin->Finish());
      payload_bytes_ += slice.payload.size();
    }
    return absl::OkStatus();
  }

  // Checks that the host makes the same payloads, also with the residuals of a first step.
  absl::StatusOr<bool> Verify() {
    for (int step = 0; step < 2; ++step) {
      PSGD_RETURN_IF_ERROR(Encode());
      for (size_t s = 0; s < slices_.size(); ++s) {
        std::vector<std::byte> expected;
        slices_[s].host->Encode(slices_[s].gradient, BenchedKey(s), step_, &expected);
        if (!std::ranges::equal(slices_[s].payload, expected)) return false;
      }
    }
    return true;
  }

  size_t payload_bytes() const { return payload_bytes_; }
  size_t slices() const { return slices_.size(); }

 private:
  struct Slice {
    std::span<const float> gradient;
    size_t begin = 0;
    std::unique_ptr<DeviceEncoder> twin;
    std::unique_ptr<ErrorFeedback> host;
    ByteSpan payload;
  };

  std::unique_ptr<DeviceArray> there_;
  std::vector<Slice> slices_;
  uint64_t step_ = 0;
  size_t payload_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::optional<BenchRow>> MeasureOnDevice(const CodecConfig& config,
                                                        const Codec& codec,
                                                        const std::vector<float>& gradient,
                                                        const CodecBenchOptions& options) {
  if (!MakeTwinOptions(codec, BenchedSlice(gradient.size(), 0, options.slice), {})) {
    return std::nullopt;
  }
  PSGD_ASSIGN_OR_RETURN(const auto subject, DeviceSubject::Create(codec, gradient, options));
  const double bytes = static_cast<double>(gradient.size() * sizeof(float));
  CodecCase measured{.name = absl::StrCat(CaseName(codec, config), "/encode/gpu"),
                     .bytes = bytes,
                     .slices = subject->slices()};
  PSGD_ASSIGN_OR_RETURN(measured.verified, subject->Verify());
  absl::Status status;
  const size_t copied = gradient.size() * sizeof(float);
  const Timing within =
      MeasureSeconds(options.repeats, [&] { status.Update(options.device->CopyWithin(copied)); });
  const Timing to_host =
      MeasureSeconds(options.repeats, [&] { status.Update(options.device->CopyToHost(copied)); });
  const double memory_gbps = bytes / within.best / 1e9;
  const double bus_gbps =
      bytes / to_host.best / 1e9 * bytes / static_cast<double>(subject->payload_bytes());
  measured.limit_gbps = std::min(memory_gbps, bus_gbps);
  BenchRow row = MeasureCodecCase(
      measured, options.repeats, [&] { status.Update(subject->Encode()); },
      [&] { return subject->payload_bytes(); });
  row.extra["memory_gbps"] = memory_gbps;
  row.extra["bus_gbps"] = bus_gbps;
  PSGD_RETURN_IF_ERROR(status);
  return row;
}

}  // namespace psgd
