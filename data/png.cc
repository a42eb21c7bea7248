#include "data/png.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

#include "data/resample.h"

namespace psgd {
namespace {

constexpr size_t kSignatureBytes = 8;

// libpng reports an error by a jump to the last setjmp, in Succeeds. So no function that it calls
// has objects that must be destroyed.
class PngFile {
 public:
  explicit PngFile(std::span<const uint8_t> bytes) : left_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, Fail, Ignore);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
    png_set_read_fn(png_, this, Read);
  }
  ~PngFile() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngFile(const PngFile&) = delete;
  PngFile& operator=(const PngFile&) = delete;

  absl::Status ReadHeader() {
    if (!Succeeds(ReadInfo)) return Bad();
    if (int64_t{width()} * height() <= kMostPixels) return absl::OkStatus();
    return DataLossError("announces ", width(), "x", height(), " pixels; from 1 to ", kMostPixels,
                         " can be read");
  }

  int width() const { return static_cast<int>(png_get_image_width(png_, info_)); }
  int height() const { return static_cast<int>(png_get_image_height(png_, info_)); }
  bool HasValues() const {
    const int color = png_get_color_type(png_, info_);
    return (color == PNG_COLOR_TYPE_GRAY || color == PNG_COLOR_TYPE_PALETTE) &&
           png_get_bit_depth(png_, info_) <= 8;
  }

  // REQUIRES: the header was read.
  absl::StatusOr<Picture> Colors() { return Pixels(/*channels=*/3, ReadColors); }
  absl::StatusOr<Picture> Values() { return Pixels(/*channels=*/1, ReadValues); }

 private:
  absl::StatusOr<Picture> Pixels(int channels, void (*read)(PngFile*)) {
    Picture picture(width(), height(), channels);
    for (int y = 0; y < picture.height; ++y) {
      rows_.push_back(picture.pixels.get() + static_cast<size_t>(y) * picture.row_bytes());
    }
    row_bytes_ = picture.row_bytes();
    if (!Succeeds(read)) return Bad();
    return picture;
  }

  bool Succeeds(void (*step)(PngFile*)) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    step(this);
    return true;
  }

  static void ReadInfo(PngFile* file) {
    png_structp png = file->png_;
    png_set_user_limits(png, kMostPictureSide, kMostPictureSide);
    png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    // Chunks that do not change pixels are skipped, because unpacking them may take much memory.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png, file->info_);
  }

  static void ReadValues(PngFile* file) {
    png_set_packing(file->png_);
    file->ReadRows();
  }

  static void ReadColors(PngFile* file) {
    png_set_expand(file->png_);
    png_set_scale_16(file->png_);
    png_set_gray_to_rgb(file->png_);
    png_set_strip_alpha(file->png_);
    file->ReadRows();
  }

  void ReadRows() {
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (png_get_rowbytes(png_, info_) != row_bytes_) png_error(png_, "its rows have another size");
    png_read_image(png_, rows_.data());
    png_read_end(png_, nullptr);
  }

  absl::Status Bad() const { return DataLossError("cannot be decoded: ", problem_); }

  [[noreturn]] static void Fail(png_structp png, png_const_charp message) {
    auto* file = static_cast<PngFile*>(png_get_error_ptr(png));
    std::snprintf(file->problem_, sizeof file->problem_, "%s", message);
    png_longjmp(png, 1);
  }
  static void Ignore(png_structp, png_const_charp) {}
  static void Read(png_structp png, png_bytep out, size_t bytes) {
    auto* file = static_cast<PngFile*>(png_get_io_ptr(png));
    if (bytes > file->left_.size()) png_error(png, "the PNG data end early");
    std::memcpy(out, file->left_.data(), bytes);
    file->left_ = file->left_.subspan(bytes);
  }

  std::span<const uint8_t> left_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::vector<png_bytep> rows_;
  size_t row_bytes_ = 0;
  char problem_[128] = "";
};

}  // namespace

bool IsPng(std::span<const uint8_t> bytes) {
  return bytes.size() >= kSignatureBytes && png_sig_cmp(bytes.data(), 0, kSignatureBytes) == 0;
}

absl::StatusOr<PngReader> PngReader::Open(std::span<const uint8_t> bytes) {
  PngFile file(bytes);
  PSGD_RETURN_IF_ERROR(file.ReadHeader());
  PngReader reader(bytes);
  reader.width_ = file.width();
  reader.height_ = file.height();
  return reader;
}

absl::StatusOr<Picture> PngReader::Decode(int shrink) const {
  PngFile file(bytes_);
  PSGD_RETURN_IF_ERROR(file.ReadHeader());
  PSGD_ASSIGN_OR_RETURN(Picture picture, file.Colors());
  return shrink == 1 ? std::move(picture) : Shrink(picture, shrink);
}

absl::StatusOr<Picture> PngReader::DecodeValues() const {
  PngFile file(bytes_);
  PSGD_RETURN_IF_ERROR(file.ReadHeader());
  if (file.HasValues()) return file.Values();
  return absl::InvalidArgumentError(  // no damage that may be skipped
      "is a PNG of colors, or of 16 bits; a mask is grey or has a palette, with up to 8 bits");
}

}  // namespace psgd
