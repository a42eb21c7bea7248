#include "client/pushes.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "client/call_errors.h"
#include "common/finite.h"
#include "common/stopwatch.h"
#include "compression/policy.h"
#include "compression/slice_shape.h"
#include "optimizers/diverged.h"
#include "proto/local_steps.h"

namespace psgd {

bool PushesWeights(const Config& config) {
  return config.optimizer().has_worker() || TakesLocalSteps(config.local());
}

absl::Status Pushes::UseDevice(uint32_t tensor, int device) {
  PSGD_RETURN_IF_ERROR(tensors_.Check(tensor));
  if (committed_) {
    return OutOfOrder("the device of a tensor comes after the commit; say it before");
  }
  if (device < 0) {
    return InvalidArgumentError("CUDA device ", device, " of ", tensors_.name(tensor),
                                "; devices are numbered from 0");
  }
  devices_.Use(tensor, device);
  return absl::OkStatus();
}

absl::Status Pushes::MakeEncoder() {
  const ModelSpec& model = tensors_.model();
  const std::vector<DeviceCodecs*> devices = devices_.Open(model, config());
  const DevicePushes::KeptThreadDevice kept(devices_);
  PSGD_ASSIGN_OR_RETURN(
      encoder_, UpdateEncoder::Create(config(), model, member_.placement(), member_.key().worker(),
                                      /*factor_rows=*/{}, devices));
  devices_.Tell(model, *encoder_, member_.options().log);
  pushed_.assign(tensors_.size(), false);
  return absl::OkStatus();
}

absl::StatusOr<CodedOn> Pushes::WhereCoded(uint32_t tensor) const {
  PSGD_RETURN_IF_ERROR(tensors_.Check(tensor));
  if (!committed_) return OutOfOrder("the model is not committed; commit it before");
  if (!encoder_->on_device()[tensor]) return CodedOn::kHost;
  const bool with_base = PushesWeights(config()) || encoder_->adds_decay(static_cast<int>(tensor));
  return with_base ? CodedOn::kDeviceWithBase : CodedOn::kDevice;
}

absl::Status Pushes::CheckPush(uint32_t tensor, Pushed what) const {
  PSGD_RETURN_IF_ERROR(may_push_());
  const std::string& name = tensors_.name(tensor);
  if (pushed_[tensor]) return OutOfOrder(name, " was pushed before in this step; end the step");
  const bool weights = what == Pushed::kWeights;
  if (weights == TakesWeights(tensor)) return absl::OkStatus();
  if (weights) {
    return OutOfOrder("the run's shards have the optimizer, and this program pushes weights of ",
                      name, "; push gradients, or say optimizer: worker in the run's config");
  }
  return OutOfOrder("a gradient of ", name,
                    tensors_.is_statistic(tensor)
                        ? ", which is a statistic: push its values"
                        : ", but this worker has the optimizer (optimizer: worker): push weights");
}

absl::Status Pushes::CheckHostPush(uint32_t tensor, Pushed what) const {
  PSGD_RETURN_IF_ERROR(CheckPush(tensor, what));
  if (!encoder_->on_device()[tensor]) return absl::OkStatus();
  return InvalidArgumentError(
      tensors_.name(tensor),
      " is coded on a GPU, and this call has values of the host; push it with "
      "psgd_push_device_weights or psgd_push_device_gradient, or leave out psgd_use_device");
}

absl::Status Pushes::CheckDevicePush(uint32_t tensor, Pushed what,
                                     const DeviceValues& values) const {
  PSGD_RETURN_IF_ERROR(CheckPush(tensor, what));
  PSGD_ASSIGN_OR_RETURN(const CodedOn where, WhereCoded(tensor));
  if (where == CodedOn::kHost) {
    return InvalidArgumentError(tensors_.name(tensor),
                                " is coded on the host, and this call has values of a GPU; the "
                                "log (log_file) says why, and psgd_get_place tells before: copy "
                                "the values to the host and push them there");
  }
  if (where == CodedOn::kDeviceWithBase && values.base == nullptr) {
    return InvalidArgumentError(
        "the base of ", tensors_.name(tensor),
        " is a null pointer; a device needs what psgd_get gave for ",
        what == Pushed::kWeights ? "the difference of weights" : "weight decay");
  }
  return absl::OkStatus();
}

absl::Status Pushes::Push(uint32_t tensor, Pushed what, std::span<const float> values) {
  PSGD_RETURN_IF_ERROR(tensors_.Check(tensor, values.size()));
  PSGD_RETURN_IF_ERROR(CheckHostPush(tensor, what));
  std::span<const float> update = values;
  if (what == Pushed::kWeights) {
    Stopwatch copying(&timings_.copy);
    update = UpdateTo(tensor, values, [](size_t i) { return i; });
  }
  if (const auto bad = FirstNotFinite(update)) return NotFinite(tensor, what, *bad, values[*bad]);
  return Encode(tensor, update);
}

absl::Status Pushes::Push(uint32_t tensor, Pushed what, const DeviceValues& values) {
  PSGD_RETURN_IF_ERROR(tensors_.Check(tensor, values.count));
  PSGD_RETURN_IF_ERROR(CheckDevicePush(tensor, what, values));
  Stopwatch encoding(&timings_.encode);
  PSGD_RETURN_IF_ERROR(devices_.Start(tensor, what, values, Decay(), Clock(), encoder_.get()));
  pushed_[tensor] = true;
  return devices_.FinishDone(encoder_.get(), TakeFromDevices());
}

absl::Status Pushes::PushRows(uint32_t tensor, std::span<const int64_t> rows,
                              std::span<const float> values) {
  PSGD_RETURN_IF_ERROR(tensors_.Check(tensor));
  const Pushed what = TakesWeights(tensor) ? Pushed::kWeights : Pushed::kGradient;
  PSGD_RETURN_IF_ERROR(CheckHostPush(tensor, what));
  const std::string& name = tensors_.name(tensor);
  const int64_t height = tensors_.spec(tensor).shape(0);
  const size_t columns = tensors_.weights(tensor).size() / static_cast<size_t>(height);
  if (values.size() / columns != rows.size() || values.size() % columns != 0) {
    return InvalidArgumentError(values.size(), " values for ", rows.size(), " rows of ", name,
                                ", whose rows have ", columns);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] > (i == 0 ? -1 : rows[i - 1]) && rows[i] < height) continue;
    return InvalidArgumentError("row ", rows[i], " of ", name, ", which has ", height,
                                " rows; name rows once, in ascending order");
  }
  if (const auto bad = FirstNotFinite(values)) {
    return OutOfRangeError(DivergedText(config()), ". Row ", rows[*bad / columns], " of ", name,
                           " is not finite: ", values[*bad]);
  }
  if (what == Pushed::kWeights) {
    Stopwatch copying(&timings_.copy);
    values = UpdateTo(tensor, values, [&](size_t i) {
      return static_cast<size_t>(rows[i / columns]) * columns + i % columns;
    });
  }
  return Encode(tensor, SparseRows{rows, columns, values});
}

template <typename ElementOf>
std::span<const float> Pushes::UpdateTo(uint32_t tensor, std::span<const float> values,
                                        const ElementOf& element_of) {
  const std::span<const float> before = tensors_.weights(tensor);
  const bool statistic = tensors_.is_statistic(tensor);
  update_.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const float had = before[element_of(i)];
    update_[i] = statistic ? values[i] - had : had - values[i];
  }
  return update_;
}

template <typename Update>
absl::Status Pushes::Encode(uint32_t tensor, const Update& update) {
  Stopwatch encoding(&timings_.encode);
  PSGD_RETURN_IF_ERROR(devices_.LaunchIfMany());
  encoded_.clear();
  encoder_->Encode(static_cast<int>(tensor), update, tensors_.weights(tensor), Decay(), Clock(),
                   &encoded_);
  Send(tensor, &encoded_);
  pushed_[tensor] = true;
  return absl::OkStatus();
}

void Pushes::Send(uint32_t tensor, std::vector<EncodedSlice>* encoded) {
  sent_.erase(tensor);
  if (encoder_->leaves_out(static_cast<int>(tensor))) sent_[tensor] = *encoded;
  for (EncodedSlice& slice : *encoded) {
    member_.autotune().Pushed(slice.travels().size());
    member_.session().Push(Clock(), std::move(slice));
  }
}

DevicePushes::Take Pushes::TakeFromDevices() {
  return [this](uint32_t tensor, std::vector<EncodedSlice> encoded) -> absl::Status {
    if (absl::Status bad = CheckFinite(tensor, encoded); !bad.ok()) {
      pushed_[tensor] = false;
      return bad;
    }
    Send(tensor, &encoded);
    return absl::OkStatus();
  };
}

absl::Status Pushes::CheckFinite(uint32_t tensor, std::span<const EncodedSlice> encoded) const {
  for (const EncodedSlice& slice : encoded) {
    if (slice.codec != CODEC_NONE) continue;
    // The update itself, perhaps because it is not finite.
    std::vector<float> update(slice.payload.size() / sizeof(float));
    std::memcpy(update.data(), slice.payload.span().data(), slice.payload.size());
    const auto bad = FirstNotFinite(update);
    if (!bad) continue;
    const size_t element =
        member_.placement().slices(static_cast<int>(slice.slice)).offset() + *bad;
    if (!PushesWeights(config())) {
      return NotFinite(tensor, Pushed::kGradient, element, update[*bad]);
    }
    return NotFinite(tensor, Pushed::kWeights, element,
                     tensors_.weights(tensor)[element] - update[*bad]);
  }
  return absl::OkStatus();
}

absl::Status Pushes::NotFinite(uint32_t tensor, Pushed what, size_t element, float value) const {
  return OutOfRangeError(DivergedText(config()),
                         what == Pushed::kWeights ? ". After this step " : ". The gradient of ",
                         tensors_.name(tensor), " is not finite: element ", element, " is ", value);
}

absl::Status Pushes::Finish() {
  Stopwatch encoding(&timings_.encode);
  return devices_.FinishAll(encoder_.get(), TakeFromDevices());
}

bool Pushes::any() const { return std::ranges::find(pushed_, true) != pushed_.end(); }

absl::Status Pushes::Sent(uint32_t tensor, std::span<uint8_t> sent) {
  PSGD_RETURN_IF_ERROR(tensors_.Check(tensor, sent.size()));
  PSGD_RETURN_IF_ERROR(Finish());
  std::ranges::fill(sent, uint8_t{0});
  for (const EncodedSlice& slice : sent_[tensor]) {
    const SliceSpec& spec = member_.placement().slices(static_cast<int>(slice.slice));
    const Codec* codec = codecs_.Find(slice.codec);
    PSGD_ASSIGN_OR_RETURN(const auto reader,
                          codec->Open(slice.payload.span(), ShapeOf(spec, tensors_.spec(tensor))));
    if (!reader->sparse()) continue;
    std::array<uint32_t, 512> indices;
    std::array<float, 512> values;
    while (const size_t count = reader->NextEntries(indices, values)) {
      for (size_t i = 0; i < count; ++i) sent[spec.offset() + indices[i]] = 1;
    }
  }
  const bool all = std::ranges::find(sent, 0) == sent.end();
  if (all) std::ranges::fill(sent, uint8_t{0});
  return absl::OkStatus();
}

absl::StatusOr<bool> Pushes::SendsElements(uint32_t tensor) const {
  PSGD_RETURN_IF_ERROR(tensors_.Check(tensor));
  return SendsSingleElements(ChooseCodec(config().compression(), tensors_.spec(tensor)));
}

}  // namespace psgd
