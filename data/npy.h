// NumPy's arrays in .npy files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

// An array in C order.
class NpyArray {
 public:
  // Takes the bytes of a .npy file. `name`: what to call it in errors. Numbers are floats of 2, 4
  // or 8 bytes, or whole numbers or truth values of 1 to 8; all in little-endian order.
  static absl::StatusOr<NpyArray> Parse(std::vector<uint8_t> bytes, const std::string& name);
  // An array of such elements, as '<f4'. REQUIRES: Parse reads that type; the bytes are those of
  // the shape.
  static NpyArray Of(absl::string_view type, std::vector<size_t> shape, std::vector<uint8_t> bytes);

  const std::vector<size_t>& shape() const { return shape_; }
  size_t size() const { return size_; }  // elements
  // Makes N x 1 of N.
  void AddColumnAxis() {
    if (shape_.size() == 1) shape_.push_back(1);
  }
  // Truth values are whole numbers.
  bool has_whole_numbers() const { return whole_; }
  // Element i in C order, as a double.
  double At(size_t i) const { return read_(bytes_.data() + offset_ + i * element_bytes_); }

 private:
  NpyArray() = default;
  // Nothing is set if the type is none that is read.
  bool SetType(absl::string_view type);

  std::vector<uint8_t> bytes_;
  std::vector<size_t> shape_;
  size_t size_ = 1;
  size_t offset_ = 0;  // of the first element
  size_t element_bytes_ = 0;
  bool whole_ = false;
  double (*read_)(const uint8_t*) = nullptr;
};

}  // namespace psgd
