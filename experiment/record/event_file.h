// Writes events.out.tfevents.*, a run's curves for TensorBoard. A record is its length, a checksum
// of the length, an Event (proto/tensorboard.proto) and a checksum of the Event. Numbers are
// little-endian. Checksums are CRC32C, rotated by 15 bits and offset by a constant ("masked").
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/metrics.h"
#include "common/status.h"
#include "proto/tensorboard.pb.h"

namespace psgd {

// Not thread-safe.
class EventFile {
 public:
  // Creates a file in `folder`, named after the time and this host. Files of earlier parts of the
  // run stay, and TensorBoard reads all of them.
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(const std::string& folder);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Values that are not finite are left out.
  absl::Status Scalars(uint64_t step, const std::vector<std::pair<std::string, double>>& values);
  absl::Status Histogram(uint64_t step, const std::string& tag, const CountHistogram& counts);
  // `text` is Markdown.
  absl::Status Text(uint64_t step, const std::string& tag, const std::string& text);

 private:
  EventFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  absl::Status Write(tensorboard::Event event);

  const std::string path_;
  const int fd_;
};

// CRC-32C (Castagnoli) of the bytes, plain and in the masked form of event files.
uint32_t Crc32c(absl::string_view bytes);
uint32_t MaskedCrc32c(absl::string_view bytes);

}  // namespace psgd
