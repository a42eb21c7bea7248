// Images as they lie in files, still encoded, with their classes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"

namespace psgd {

// Files beyond this are refused before memory is taken for them.
inline constexpr uint64_t kMostEncodedBytes = uint64_t{256} << 20;

// Holds where the images are, not the images: any number of threads may read, and nothing is read
// but what is asked for.
class EncodedImages {
 public:
  virtual ~EncodedImages() = default;
  virtual size_t size() const = 0;
  // REQUIRES, of all three: index < size().
  virtual int32_t label(size_t index) const = 0;
  virtual absl::StatusOr<std::vector<uint8_t>> Read(size_t index) const = 0;
  // For people: the file, and the member of an archive.
  virtual std::string Name(size_t index) const = 0;
};

struct EncodedSets {
  std::shared_ptr<const EncodedImages> train;
  std::shared_ptr<const EncodedImages> test;
  int classes = 0;
};

}  // namespace psgd
