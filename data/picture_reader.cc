#include "data/picture_reader.h"

#include <cstddef>
#include <vector>

#include "data/resample.h"

namespace psgd {
namespace {

constexpr float kGreyWeights[] = {0.299f, 0.587f, 0.114f};  // ITU-R BT.601

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
  const size_t plane = static_cast<size_t>(size) * static_cast<size_t>(size);
  if (pixels.size() > plane) {
    ResampleColours(picture, shrink, view, size, pixels);
    return absl::OkStatus();
  }
  std::vector<float> colours(3 * plane);
  ResampleColours(picture, shrink, view, size, colours);
  for (size_t i = 0; i < plane; ++i) {
    pixels[i] = kGreyWeights[0] * colours[i] + kGreyWeights[1] * colours[plane + i] +
                kGreyWeights[2] * colours[2 * plane + i];
  }
  return absl::OkStatus();
}

}  // namespace psgd
