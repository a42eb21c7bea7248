// A picture in a file of any kind that samples may come from.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <variant>

#include "common/status.h"
#include "data/jpeg.h"
#include "data/picture.h"
#include "data/png.h"
#include "data/view.h"
#include "proto/config.pb.h"

namespace psgd {

// The channels of the samples that pictures become.
inline int ChannelsOf(const ImagesConfig& config) { return config.channels() == 1 ? 1 : 3; }

// Reads a JPEG or a PNG, which is told by its first bytes. Not thread-safe.
class PictureReader {
 public:
  // Reads the size. DataLoss: neither of the two, or damaged. REQUIRES: the bytes outlive the
  // reader.
  static absl::StatusOr<PictureReader> Open(std::span<const uint8_t> bytes);

  int width() const {
    return std::visit([](const auto& reader) { return reader.width(); }, reader_);
  }
  int height() const {
    return std::visit([](const auto& reader) { return reader.height(); }, reader_);
  }

  // Decodes the view, as size x size pixels in [0, 1]: of three channels, or grey if `pixels` has
  // room for one. The picture is decoded at a fraction of its
  // size if that is enough. DataLoss: damaged.
  absl::Status ReadView(const View& view, int size, std::span<float> pixels) const;

 private:
  explicit PictureReader(std::variant<JpegReader, PngReader> reader) : reader_(std::move(reader)) {}

  std::variant<JpegReader, PngReader> reader_;
};

}  // namespace psgd
