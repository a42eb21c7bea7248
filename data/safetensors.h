// Weights in a file that PyTorch loads: .safetensors (layout: safetensors_header.h), fp32 only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"

namespace psgd {

struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::span<const float> values;
};

using Metadata = std::map<std::string, std::string>;

// Writes the tensors in this order. Atomic: a reader or a crash sees the old file or the new one. A
// shape that does not fit its values, or a repeated name, is an error.
absl::Status WriteSafetensors(const std::string& path, std::span<const NamedTensor> tensors,
                              const Metadata& metadata);

// A file read into memory. Immutable, hence thread-safe.
class SafetensorsFile {
 public:
  // Accepts only a sound file. Every error names the file and what is wrong with it.
  static absl::StatusOr<SafetensorsFile> Read(const std::string& path);

  // In the order of the data. Values live as long as this object.
  const std::vector<NamedTensor>& tensors() const { return tensors_; }
  // Returns null if no tensor has this name.
  const NamedTensor* Find(absl::string_view name) const;
  const Metadata& metadata() const { return metadata_; }

 private:
  SafetensorsFile() = default;

  std::unique_ptr<float[]> values_;
  std::vector<NamedTensor> tensors_;
  Metadata metadata_;
};

}  // namespace psgd
