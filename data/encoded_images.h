// Encoded images in files, with their classes or targets.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "data/targets.h"

namespace psgd {

// Larger files are refused before memory is allocated for them.
inline constexpr uint64_t kMostEncodedBytes = uint64_t{256} << 20;

// Holds the places of the images, not the images. Each Read reads one image. Thread-safe.
class EncodedImages {
 public:
  virtual ~EncodedImages() = default;
  virtual size_t size() const = 0;
  // REQUIRES, for all calls: index < size().
  virtual int32_t label(size_t index) const = 0;  // 0 if images have targets
  // Fills in the real targets, if images have any.
  virtual void ReadTargets(size_t, std::span<float>) const {}
  virtual absl::StatusOr<std::vector<uint8_t>> Read(size_t index) const = 0;
  // For messages: the file, and the member of an archive.
  virtual std::string Name(size_t index) const = 0;
};

struct EncodedSets {
  std::shared_ptr<const EncodedImages> train;
  std::shared_ptr<const EncodedImages> test;
  int classes = 0;                            // or the number of targets
  Targets targets = {};                       // none, if labels are classes
  std::vector<std::string> class_names = {};  // empty: classes are numbers, or there are targets
  std::string note = {};                      // for people, if the sets may be wrong
};

}  // namespace psgd
