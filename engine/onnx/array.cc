#include "engine/onnx/array.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace psgd::onnx {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 31;
constexpr int kMostAxes = 16;

// IEEE half to single, also for subnormal and infinite values.
float FromHalf(uint16_t half) {
  const uint32_t sign = uint32_t{half} >> 15 << 31;
  const uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
  float magnitude;
  if (exponent == 0) {
    magnitude = static_cast<float>(fraction) * 0x1p-24f;
  } else {
    const uint32_t bits = (exponent == 31 ? 255u << 23 : (exponent + 112) << 23) | fraction << 13;
    std::memcpy(&magnitude, &bits, sizeof magnitude);
  }
  uint32_t bits;
  std::memcpy(&bits, &magnitude, sizeof bits);
  bits |= sign;
  std::memcpy(&magnitude, &bits, sizeof magnitude);
  return magnitude;
}

absl::Status WrongCount(int64_t found, int64_t wanted) {
  return DataLossError("has ", found, " values where its shape has ", wanted);
}

// Reads raw_data if it is there, else the typed field. Converts each value to To.
template <typename Stored, typename To, typename Field, typename Convert>
absl::Status ReadValues(const TensorProto& tensor, const Field& field, int64_t count,
                        Convert convert, std::vector<To>* values) {
  if (tensor.has_raw_data()) {
    const std::string& raw = tensor.raw_data();
    if (raw.size() != static_cast<size_t>(count) * sizeof(Stored)) {
      return DataLossError("has ", raw.size(), " bytes where its shape needs ",
                           count * static_cast<int64_t>(sizeof(Stored)));
    }
    values->resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      Stored stored;
      std::memcpy(&stored, raw.data() + i * sizeof(Stored), sizeof stored);
      (*values)[i] = convert(stored);
    }
    return absl::OkStatus();
  }
  if (field.size() != count) return WrongCount(field.size(), count);
  values->reserve(static_cast<size_t>(count));
  for (const auto& value : field) values->push_back(convert(static_cast<Stored>(value)));
  return absl::OkStatus();
}

absl::Status ReadInto(const TensorProto& tensor, int64_t count, Array* array) {
  const auto real = [](auto value) { return static_cast<float>(value); };
  const auto whole = [](auto value) { return static_cast<int64_t>(value); };
  const auto truth = [](auto value) { return int64_t{value != 0}; };
  switch (tensor.data_type()) {
    case TensorProto::FLOAT:
      return ReadValues<float>(tensor, tensor.float_data(), count, real, &array->reals);
    case TensorProto::DOUBLE:
      return ReadValues<double>(tensor, tensor.double_data(), count, real, &array->reals);
    case TensorProto::FLOAT16:
      return ReadValues<uint16_t>(tensor, tensor.int32_data(), count, FromHalf, &array->reals);
    case TensorProto::INT64:
      return ReadValues<int64_t>(tensor, tensor.int64_data(), count, whole, &array->ints);
    case TensorProto::INT32:
      return ReadValues<int32_t>(tensor, tensor.int32_data(), count, whole, &array->ints);
    case TensorProto::INT8:
      return ReadValues<int8_t>(tensor, tensor.int32_data(), count, whole, &array->ints);
    case TensorProto::UINT8:
      return ReadValues<uint8_t>(tensor, tensor.int32_data(), count, whole, &array->ints);
    case TensorProto::BOOL:
      return ReadValues<uint8_t>(tensor, tensor.int32_data(), count, truth, &array->ints);
    default:
      return absl::UnimplementedError(
          absl::StrCat("has element type ", tensor.data_type(),
                       "; psgd reads float, double, float16, int64, int32, int8, uint8 and bool"));
  }
}

}  // namespace

ArrayPtr MakeInts(Shape shape, std::vector<int64_t> values, Array::Kind kind) {
  auto array = std::make_shared<Array>();
  array->kind = kind;
  array->shape = std::move(shape);
  array->ints = std::move(values);
  return array;
}

ArrayPtr MakeReals(Shape shape, std::vector<float> values) {
  auto array = std::make_shared<Array>();
  array->shape = std::move(shape);
  array->reals = std::move(values);
  return array;
}

absl::StatusOr<int64_t> CheckedCount(const Shape& shape, int64_t limit) {
  if (shape.size() > kMostAxes) {
    return InvalidArgumentError("has ", shape.size(), " axes; at most ", kMostAxes, " are taken");
  }
  int64_t count = 1;
  for (int64_t size : shape) {
    if (size < 0) return InvalidArgumentError("has an axis of size ", size);
    if (__builtin_mul_overflow(count, size, &count) || count > limit) {
      return InvalidArgumentError("has more than ", limit, " elements (", ShapeText(shape), ")");
    }
  }
  return count;
}

absl::StatusOr<ArrayPtr> ReadArray(const TensorProto& tensor) {
  if (tensor.data_location() != 0 || tensor.external_data_size() > 0) {
    return absl::UnimplementedError(
        "lies in another file (external data); save the model as one file, as with "
        "onnx.save(onnx.load(\"model.onnx\"), \"single.onnx\", save_as_external_data=False)");
  }
  auto array = std::make_shared<Array>();
  array->shape.assign(tensor.dims().begin(), tensor.dims().end());
  PSGD_ASSIGN_OR_RETURN(const int64_t count, CheckedCount(array->shape, kMostElements));
  PSGD_RETURN_IF_ERROR(ReadInto(tensor, count, array.get()));
  const bool ints = tensor.data_type() != TensorProto::FLOAT &&
                    tensor.data_type() != TensorProto::DOUBLE &&
                    tensor.data_type() != TensorProto::FLOAT16;
  array->kind = !ints                                     ? Array::Kind::kReal
                : tensor.data_type() == TensorProto::BOOL ? Array::Kind::kBool
                                                          : Array::Kind::kInt;
  return ArrayPtr(std::move(array));
}

}  // namespace psgd::onnx
