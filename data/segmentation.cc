#include "data/segmentation.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/image_folder.h"
#include "data/pgm.h"
#include "data/picture_reader.h"
#include "data/png.h"
#include "data/range_file.h"
#include "data/resample.h"

namespace psgd {
namespace {

constexpr size_t kMostMasks = 100;  // that opening reads

struct Pair {
  std::string image, mask;  // paths
};

// Returns an empty path if the image has no mask.
std::string MaskPath(const std::string& folder, const std::string& image) {
  for (const char* ending : {".pgm", ".png"}) {
    std::error_code error;
    std::string mask = absl::StrCat(folder, "/masks/", image.substr(0, image.rfind('.')), ending);
    if (std::filesystem::is_regular_file(mask, error)) return mask;
  }
  return "";
}

absl::StatusOr<Picture> ParseMask(std::span<const uint8_t> bytes) {
  if (!IsPng(bytes)) return ParsePgm(bytes);
  PSGD_ASSIGN_OR_RETURN(const PngReader reader, PngReader::Open(bytes));
  return reader.DecodeValues();
}

// The cause is probably a wrong key, not damage, so such a sample is not skipped.
absl::Status BeyondClasses(const std::string& mask_path, int label, int classes) {
  return InvalidArgumentError(mask_path, ": has a pixel of class ", label,
                              ", but data.images.classes is ", classes, " (", kIgnoredPixel,
                              " means not counted)");
}

// Reads masks until two classes occur; in most sets the first mask has both. If there is only one
// class, the network learns nothing: an error if the reason is 255, otherwise a note. If there are
// many masks, looks at some that are spread over the list, because names may sort the empty ones
// together. Then 255 is a note, too. Does not report damage: training does.
absl::StatusOr<std::string> CheckClasses(const std::vector<Pair>& pairs, int classes) {
  std::optional<int> only;
  bool ignored = false;
  const size_t looks = std::min(pairs.size(), kMostMasks);
  for (size_t look = 0; look < looks; ++look) {
    const Pair& pair = pairs[look * pairs.size() / looks];
    const auto bytes = ReadWholeFile(pair.mask, kMostEncodedBytes);
    const auto mask = bytes.ok() ? ParseMask(*bytes) : bytes.status();
    if (!mask.ok()) continue;
    for (const uint8_t label : std::span(mask->pixels.get(), mask->bytes())) {
      if (label == kIgnoredPixel) {
        ignored = true;
      } else if (label >= classes) {
        return BeyondClasses(pair.mask, label, classes);
      } else if (only.value_or(label) != label) {
        return "";
      } else {
        only = label;
      }
    }
  }
  const std::string folder = std::filesystem::path(pairs.front().mask).parent_path().string();
  if (ignored) {
    const std::string text = absl::StrCat(
        folder, ": ", looks < pairs.size() ? absl::StrCat(looks, " of the masks") : "the masks",
        " have ", kIgnoredPixel, ", which is not counted, and ",
        only ? absl::StrCat("the class ", *only, " alone") : "no class", "; if ", kIgnoredPixel,
        " is the class 1, divide by 255 (mask // 255)");
    if (looks < pairs.size()) return text;
    return absl::InvalidArgumentError(text);
  }
  if (!only || looks < pairs.size()) return "";  // the others may have an object
  return absl::StrCat(folder, ": all pixels are of class ", *only,
                      ", so the network learns nothing; data.images.classes is ", classes);
}

// Images and their masks. Thread-safe: immutable.
class SegmentationDataset final : public Dataset {
 public:
  SegmentationDataset(std::vector<Pair> pairs, const ImagesConfig& config, const Viewer& viewer)
      : pairs_(std::move(pairs)),
        shape_{.channels = ChannelsOf(config),
               .height = config.size(),
               .width = config.size(),
               .classes = config.classes(),
               .label_each_pixel = true},
        viewer_(viewer) {}

  size_t size() const override { return pairs_.size(); }
  SampleShape shape() const override { return shape_; }
  absl::Status Read(const SampleKey& key, const Sample& sample) const override {
    const auto& [path, mask_path] = pairs_[key.index];
    PSGD_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, ReadWholeFile(path, kMostEncodedBytes));
    PSGD_ASSIGN_OR_RETURN(const std::vector<uint8_t> mask_bytes,
                          ReadWholeFile(mask_path, kMostEncodedBytes));
    const auto mask = ParseMask(mask_bytes);
    if (!mask.ok()) return Annotate(mask.status(), mask_path);
    const auto reader = PictureReader::Open(bytes);
    if (!reader.ok()) return Annotate(reader.status(), path);
    if (reader->width() != mask->width || reader->height() != mask->height) {
      return DataLossError(mask_path, ": is ", mask->width, "x", mask->height,
                           " pixels, but its image ", path, " is ", reader->width(), "x",
                           reader->height());
    }
    const View view = viewer_.Choose(key, mask->width, mask->height);
    const absl::Status decoded = reader->ReadView(view, shape_.width, sample.values);
    if (!decoded.ok()) return Annotate(decoded, path);
    ResampleNearest(*mask, view, shape_.width, sample.labels);
    return TakeLabels(mask_path, sample.labels);
  }

 private:
  absl::Status TakeLabels(const std::string& mask_path, std::span<int32_t> labels) const {
    for (int32_t& label : labels) {
      if (label == kIgnoredPixel) {
        label = -1;
      } else if (label >= shape_.classes) {
        return BeyondClasses(mask_path, label, shape_.classes);
      }
    }
    return absl::OkStatus();
  }

  const std::vector<Pair> pairs_;
  const SampleShape shape_;
  const Viewer viewer_;
};

absl::StatusOr<std::vector<Pair>> ListPairs(const std::string& folder) {
  PSGD_ASSIGN_OR_RETURN(const std::vector<std::string> images,
                        PictureNames(absl::StrCat(folder, "/images")));
  if (images.empty()) {
    return InvalidArgumentError(folder,
                                "/images: holds no .jpg, .jpeg or .png file; check data.path");
  }
  std::vector<Pair> pairs;
  for (const std::string& image : images) {
    Pair& pair =
        pairs.emplace_back(absl::StrCat(folder, "/images/", image), MaskPath(folder, image));
    if (!pair.mask.empty()) continue;
    return NotFoundError(folder, "/masks/", image.substr(0, image.rfind('.')),
                         ".png (or .pgm): there is no such file, but an image ", pair.image,
                         "; each image needs a mask of its name");
  }
  return pairs;
}

}  // namespace

absl::StatusOr<TrainAndTest> OpenSegmentation(const DataConfig& config, uint64_t seed) {
  std::error_code error;
  const ImagesConfig& images = config.images();
  const std::string train = absl::StrCat(config.path(), "/train");
  if (!std::filesystem::is_directory(train, error)) {
    return NotFoundError(train,
                         ": no such folder; it should hold images and masks: check data.path");
  }
  PSGD_ASSIGN_OR_RETURN(const std::string test, TestFolder(config.path()));
  PSGD_ASSIGN_OR_RETURN(std::vector<Pair> training, ListPairs(train));
  PSGD_ASSIGN_OR_RETURN(std::vector<Pair> tested, ListPairs(test));
  TrainAndTest sets;
  PSGD_ASSIGN_OR_RETURN(sets.note, CheckClasses(training, images.classes()));
  sets.train = std::make_shared<SegmentationDataset>(
      std::move(training), images, Viewer::Augmented(images, config.augment(), seed));
  sets.test =
      std::make_shared<SegmentationDataset>(std::move(tested), images, Viewer::Centred(images));
  return sets;
}

}  // namespace psgd
