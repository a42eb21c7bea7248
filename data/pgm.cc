#include "data/pgm.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"

namespace psgd {
namespace {

constexpr int kMostValue = 255;  // larger values would take two bytes

class PgmHeader {
 public:
  explicit PgmHeader(std::span<const uint8_t> bytes) : bytes_(bytes), at_(2) {}

  // Returns the next number, at most `most`; nothing if there is no such number.
  std::optional<int> Number(int most) {
    SkipSpace();
    if (at_ >= bytes_.size() || !absl::ascii_isdigit(bytes_[at_])) return std::nullopt;
    int number = 0;
    while (at_ < bytes_.size() && absl::ascii_isdigit(bytes_[at_])) {
      number = 10 * number + (bytes_[at_++] - '0');
      if (number > most) return std::nullopt;
    }
    return number;
  }

  // Returns the bytes after the one white space that ends the header.
  std::optional<std::span<const uint8_t>> Rest() const {
    if (at_ >= bytes_.size() || !absl::ascii_isspace(bytes_[at_])) return std::nullopt;
    return bytes_.subspan(at_ + 1);
  }

 private:
  void SkipSpace() {
    while (at_ < bytes_.size()) {
      if (bytes_[at_] == '#') {
        while (at_ < bytes_.size() && bytes_[at_] != '\n') ++at_;
      } else if (!absl::ascii_isspace(bytes_[at_])) {
        return;
      } else {
        ++at_;
      }
    }
  }

  const std::span<const uint8_t> bytes_;
  size_t at_;
};

}  // namespace

absl::StatusOr<Picture> ParsePgm(std::span<const uint8_t> bytes) {
  if (bytes.size() < 2 || bytes[0] != 'P' || bytes[1] != '5') {
    return absl::DataLossError("is neither a PNG nor a binary PGM: it does not begin with P5");
  }
  PgmHeader header(bytes);
  const std::optional<int> width = header.Number(kMostPictureSide),
                           height = header.Number(kMostPictureSide);
  const std::optional<int> largest = header.Number(kMostValue);
  const std::optional<std::span<const uint8_t>> pixels = header.Rest();
  if (!width || !height || !largest || !pixels || *width == 0 || *height == 0) {
    return DataLossError("has a damaged PGM header: after P5 come width and height from 1 to ",
                         kMostPictureSide, ", the largest value up to ", kMostValue,
                         ", and one white space");
  }
  const uint64_t expected = static_cast<uint64_t>(*width) * static_cast<uint64_t>(*height);
  if (pixels->size() != expected) {
    return DataLossError("holds ", pixels->size(), " pixels, but announces ", *width, "x", *height);
  }
  Picture picture(*width, *height, 1);
  std::copy(pixels->begin(), pixels->end(), picture.pixels.get());
  return picture;
}

}  // namespace psgd
