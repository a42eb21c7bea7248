#include "data/npy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace psgd {
namespace {

constexpr absl::string_view kNpyMagic = "\x93NUMPY";
constexpr size_t kMostAxes = 8;
constexpr size_t kMostNpyElements = size_t{1} << 48;

template <typename T>
double ReadAs(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return static_cast<double>(value);
}

// IEEE 754 binary16.
double ReadHalf(const uint8_t* at) {
  const int bits = at[0] | at[1] << 8;
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double size =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) size = fraction == 0 ? INFINITY : NAN;
  return bits >> 15 != 0 ? -size : size;
}

struct NpyType {
  const char* name;
  size_t bytes;
  double (*read)(const uint8_t*);
};
constexpr NpyType kNpyTypes[] = {
    {"<f4", 4, ReadAs<float>},    {"<f8", 8, ReadAs<double>},   {"<f2", 2, ReadHalf},
    {"|u1", 1, ReadAs<uint8_t>},  {"|i1", 1, ReadAs<int8_t>},   {"|b1", 1, ReadAs<uint8_t>},
    {"<i4", 4, ReadAs<int32_t>},  {"<i8", 8, ReadAs<int64_t>},  {"<i2", 2, ReadAs<int16_t>},
    {"<u4", 4, ReadAs<uint32_t>}, {"<u8", 8, ReadAs<uint64_t>}, {"<u2", 2, ReadAs<uint16_t>}};

absl::Status BadNpy(const std::string& name, absl::string_view problem) {
  return DataLossError(name, ": ", std::string(problem),
                       "; it is no .npy array, or damaged: write it again with numpy.save");
}

// What follows 'key': in the header, a Python dict.
absl::string_view ValueOf(absl::string_view header, absl::string_view key) {
  const size_t at = header.find(key);
  return at == header.npos ? "" : header.substr(at + key.size());
}

}  // namespace

bool NpyArray::SetType(absl::string_view type) {
  const auto known = std::ranges::find_if(
      kNpyTypes, [&](const NpyType& one) { return absl::StartsWith(type, one.name); });
  if (known == std::end(kNpyTypes)) return false;
  element_bytes_ = known->bytes;
  read_ = known->read;
  whole_ = known->name[1] != 'f';
  return true;
}

NpyArray NpyArray::Of(absl::string_view type, std::vector<size_t> shape,
                      std::vector<uint8_t> bytes) {
  NpyArray array;
  array.SetType(type);
  array.size_ = bytes.size() / array.element_bytes_;
  array.shape_ = std::move(shape);
  array.bytes_ = std::move(bytes);
  return array;
}

absl::StatusOr<NpyArray> NpyArray::Parse(std::vector<uint8_t> bytes, const std::string& name) {
  NpyArray array;
  const absl::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!absl::StartsWith(text, kNpyMagic) || bytes.size() < 12) {
    return BadNpy(name, "it does not begin as an array");
  }
  // Version 1 has a length of two bytes, later ones of four.
  const size_t length_bytes = bytes[6] == 1 ? 2 : 4;
  size_t length = 0;
  for (size_t i = length_bytes; i-- > 0;) length = length << 8 | bytes[8 + i];
  array.offset_ = 8 + length_bytes + length;
  if (array.offset_ > bytes.size()) return BadNpy(name, "its header is cut short");
  const absl::string_view header = text.substr(8 + length_bytes, length);
  const absl::string_view type = ValueOf(header, "'descr': '");
  if (const absl::string_view kind = type.substr(0, 2);
      kind == "<U" || kind == "|S" || kind == "|O") {
    return InvalidArgumentError(
        name, ": its elements are ", kind == "|O" ? "Python objects" : "texts",
        ", and arrays have numbers; number classes first, as with names, y = numpy.unique(y, "
        "return_inverse=True), or write a table (data.format: table)");
  }
  if (absl::StartsWith(ValueOf(header, "'descr': "), "[")) {
    return InvalidArgumentError(
        name,
        ": its elements are records, which are not read; join their columns, as with "
        "numpy.lib.recfunctions.structured_to_unstructured(x)");
  }
  if (!array.SetType(type)) {
    return InvalidArgumentError(
        name, ": its elements are ",
        std::string(type.substr(0, std::min<size_t>(type.find('\''), 16))),
        ", which is not read; convert the array first, as with x.astype('float32')");
  }
  if (!absl::StartsWith(ValueOf(header, "'fortran_order': "), "False")) {
    return InvalidArgumentError(
        name, ": it is in Fortran order; convert it first with numpy.ascontiguousarray");
  }
  absl::string_view shape = ValueOf(header, "'shape': (");
  shape = shape.substr(0, shape.find(')'));
  const size_t room = (bytes.size() - array.offset_) / array.element_bytes_;
  for (const absl::string_view axis :
       absl::StrSplit(shape, absl::ByAnyChar(", "), absl::SkipEmpty())) {
    uint64_t size = 0;
    if (!absl::SimpleAtoi(axis, &size) || array.shape_.size() == kMostAxes ||
        (size > 0 && array.size_ > kMostNpyElements / size)) {
      return BadNpy(name, "its shape is not that of its bytes");
    }
    array.shape_.push_back(size);
    array.size_ *= size;
  }
  if (array.size_ != room) return BadNpy(name, "its shape is not that of its bytes");
  array.bytes_ = std::move(bytes);
  return array;
}

}  // namespace psgd
