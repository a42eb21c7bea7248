#include "data/jpeg.h"

#include <turbojpeg.h>

#include <new>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

// Progressive files with many scans are refused because they cost much. Irregular data is an error.
constexpr int kFlags = TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;

// Adobe's files store the inks inverted; no other files of this kind are in use.
Picture FromInks(const Picture& inks) {
  Picture picture(inks.width, inks.height, 3);
  const size_t pixels = picture.bytes() / 3;
  for (size_t i = 0; i < pixels; ++i) {
    const uint8_t* from = inks.pixels.get() + 4 * i;
    for (size_t c = 0; c < 3; ++c) {
      picture.pixels[3 * i + c] = static_cast<uint8_t>(from[c] * from[3] / 255);
    }
  }
  return picture;
}

}  // namespace

void JpegReader::Close::operator()(void* handle) const { tjDestroy(handle); }
JpegReader::~JpegReader() = default;
JpegReader::JpegReader(JpegReader&&) noexcept = default;

absl::Status JpegReader::Bad() const {
  return DataLossError("cannot be decoded: ", tjGetErrorStr2(handle_.get()));
}

absl::StatusOr<JpegReader> JpegReader::Open(std::span<const uint8_t> bytes) {
  void* handle = tjInitDecompress();
  if (handle == nullptr) throw std::bad_alloc();
  JpegReader reader(handle, bytes);
  int subsampling = 0, colours = 0;
  if (tjDecompressHeader3(handle, bytes.data(), bytes.size(), &reader.width_, &reader.height_,
                          &subsampling, &colours) != 0) {
    return reader.Bad();
  }
  if (reader.width_ < 1 || reader.height_ < 1 ||
      int64_t{reader.width_} * reader.height_ > kMostPixels) {
    return DataLossError("announces ", reader.width_, "x", reader.height_, " pixels; from 1 to ",
                         kMostPixels, " can be read");
  }
  reader.inks_ = colours == TJCS_CMYK || colours == TJCS_YCCK;
  return reader;
}

absl::StatusOr<Picture> JpegReader::DecodeAs(int format, int channels, int width,
                                             int height) const {
  Picture picture(width, height, channels);
  if (tjDecompress2(handle_.get(), bytes_.data(), bytes_.size(), picture.pixels.get(), width,
                    /*pitch=*/0, height, format, kFlags) != 0) {
    return Bad();
  }
  return picture;
}

absl::StatusOr<Picture> JpegReader::Decode(int shrink) const {
  const tjscalingfactor factor{1, shrink};
  const int width = TJSCALED(width_, factor), height = TJSCALED(height_, factor);
  if (!inks_) return DecodeAs(TJPF_RGB, 3, width, height);
  PSGD_ASSIGN_OR_RETURN(const Picture inks, DecodeAs(TJPF_CMYK, 4, width, height));
  return FromInks(inks);
}

absl::StatusOr<std::vector<uint8_t>> EncodeJpeg(const Picture& picture, int quality) {
  void* handle = tjInitCompress();
  if (handle == nullptr) throw std::bad_alloc();
  unsigned char* encoded = nullptr;
  unsigned long size = 0;
  const int failed =
      tjCompress2(handle, picture.pixels.get(), picture.width, /*pitch=*/0, picture.height,
                  TJPF_RGB, &encoded, &size, TJSAMP_420, quality, /*flags=*/0);
  absl::StatusOr<std::vector<uint8_t>> result =
      failed != 0 ? absl::StatusOr<std::vector<uint8_t>>(absl::InternalError(
                        absl::StrCat("encoding JPEG: ", tjGetErrorStr2(handle))))
                  : std::vector<uint8_t>(encoded, encoded + size);
  tjFree(encoded);
  tjDestroy(handle);
  return result;
}

}  // namespace psgd
