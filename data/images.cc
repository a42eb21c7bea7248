#include "data/images.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "data/image_folder.h"
#include "data/image_shards.h"
#include "data/jpeg.h"
#include "data/resample.h"

namespace psgd {
namespace {

// Decodes images on Read. Thread-safe: immutable.
class ImageDataset final : public Dataset {
 public:
  ImageDataset(std::shared_ptr<const EncodedImages> images, int classes, int size,
               const Viewer& viewer)
      : images_(std::move(images)), classes_(classes), size_(size), viewer_(viewer) {}

  size_t size() const override { return images_->size(); }
  SampleShape shape() const override { return {3, size_, size_, classes_}; }
  absl::Status Read(const SampleKey& key, const Sample& sample) const override {
    PSGD_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, images_->Read(key.index));
    const absl::Status decoded = DecodeView(bytes, viewer_, key, size_, sample.values);
    if (!decoded.ok()) return Annotate(decoded, images_->Name(key.index));
    sample.labels[0] = images_->label(key.index);
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const EncodedImages> images_;
  const int classes_;
  const int size_;
  const Viewer viewer_;
};

absl::StatusOr<EncodedSets> FindImages(const std::string& folder) {
  std::error_code error;
  const bool folders = std::filesystem::is_directory(absl::StrCat(folder, "/train"), error);
  const bool shards = HasImageShards(folder);
  if (folders && shards) {
    return InvalidArgumentError(
        folder, ": has both a folder train and train-*.tar; move one of them elsewhere");
  }
  if (folders) return ListImageFolders(folder);
  if (shards) return IndexImageShards(folder);
  return NotFoundError(folder,
                       std::filesystem::is_directory(folder, error) ? "" : " (no such folder)",
                       ": looked for a folder train, in it a folder of JPEG files for each class, "
                       "or for train-*.tar; check data.path");
}

}  // namespace

absl::Status DecodeView(std::span<const uint8_t> jpeg, const Viewer& viewer, const SampleKey& key,
                        int size, std::span<float> pixels) {
  PSGD_ASSIGN_OR_RETURN(const JpegReader reader, JpegReader::Open(jpeg));
  const View view = viewer.Choose(key, reader.width(), reader.height());
  const int shrink = ShrinkFor(view.window, size);
  PSGD_ASSIGN_OR_RETURN(const Picture picture, reader.Decode(shrink));
  ResampleColours(picture, shrink, view, size, pixels);
  return absl::OkStatus();
}

std::shared_ptr<const Dataset> MakeImageDataset(std::shared_ptr<const EncodedImages> images,
                                                int classes, int size, const Viewer& viewer) {
  return std::make_shared<ImageDataset>(std::move(images), classes, size, viewer);
}

absl::StatusOr<TrainAndTest> OpenImages(const DataConfig& config, uint64_t seed) {
  PSGD_ASSIGN_OR_RETURN(EncodedSets found, FindImages(config.path()));
  const int size = config.images().size();
  TrainAndTest sets;
  sets.train = MakeImageDataset(std::move(found.train), found.classes, size,
                                Viewer::Augmented(config.images(), config.augment(), seed));
  sets.test = MakeImageDataset(std::move(found.test), found.classes, size,
                               Viewer::Centred(config.images()));
  return sets;
}

}  // namespace psgd
