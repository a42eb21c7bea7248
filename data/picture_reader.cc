#include "data/picture_reader.h"

#include "data/resample.h"

namespace psgd {
namespace {

bool IsJpeg(std::span<const uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0xff && bytes[1] == 0xd8;
}

}  // namespace

absl::StatusOr<PictureReader> PictureReader::Open(std::span<const uint8_t> bytes) {
  if (IsPng(bytes)) {
    PSGD_ASSIGN_OR_RETURN(PngReader reader, PngReader::Open(bytes));
    return PictureReader(std::move(reader));
  }
  if (IsJpeg(bytes)) {
    PSGD_ASSIGN_OR_RETURN(JpegReader reader, JpegReader::Open(bytes));
    return PictureReader(std::move(reader));
  }
  return absl::DataLossError(bytes.empty() ? "is empty" : "does not begin as a JPEG or a PNG does");
}

absl::Status PictureReader::ReadView(const View& view, int size, std::span<float> pixels) const {
  const int shrink = ShrinkFor(view.window, size);
  PSGD_ASSIGN_OR_RETURN(
      const Picture picture,
      std::visit([&](const auto& reader) { return reader.Decode(shrink); }, reader_));
  ResampleColours(picture, shrink, view, size, pixels);
  return absl::OkStatus();
}

}  // namespace psgd
