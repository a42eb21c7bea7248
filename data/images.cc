#include "data/images.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "data/folder_names.h"
#include "data/image_folder.h"
#include "data/image_shards.h"
#include "data/labelled_images.h"
#include "data/picture_reader.h"
#include "data/preparation.h"

namespace psgd {
namespace {

// Where a folder without sets has something else that people take for them. Else empty.
std::string MisplacedText(const std::string& folder) {
  const std::filesystem::path path = (std::filesystem::path(folder) / "").parent_path();
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return "";
  if (path.filename() == "train" || path.filename() == "test" || path.filename() == "val") {
    return absl::StrCat("; set data.path to the folder that holds ", path.filename().string(), ": ",
                        path.has_parent_path() ? path.parent_path().string() : ".");
  }
  const auto classes = ClassFolders(folder);
  if (!classes.ok()) return "";
  const auto pictures = PictureNames(absl::StrCat(folder, "/", classes->front()));
  if (!pictures.ok() || pictures->empty()) return "";
  return absl::StrCat("; if its folders, as ", classes->front(), ", are the classes, move them to ",
                      folder, "/train, and some files of each to folders of the same names in ",
                      folder, "/test");
}

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
  const std::string misplaced = MisplacedText(folder);
  return NotFoundError(folder,
                       std::filesystem::is_directory(folder, error) ? "" : " (no such folder)",
                       ": looked for a folder train, in it a folder of JPEG or PNG files for each "
                       "class, or for train-*.tar",
                       misplaced.empty() ? "; check data.path" : misplaced,
                       ", or name a table of labels in data.images.labels");
}

}  // namespace

absl::Status DecodeView(std::span<const uint8_t> bytes, const Viewer& viewer, const SampleKey& key,
                        int size, std::span<float> pixels) {
  PSGD_ASSIGN_OR_RETURN(const PictureReader reader, PictureReader::Open(bytes));
  return reader.ReadView(viewer.Choose(key, reader.width(), reader.height()), size, pixels);
}

std::shared_ptr<const Dataset> MakeImageDataset(std::shared_ptr<const EncodedImages> images,
                                                const SampleShape& shape, const Viewer& viewer) {
  const size_t size = images->size();
  return std::make_shared<ReadDataset>(
      size, shape,
      [images = std::move(images), width = shape.width, viewer](
          const SampleKey& key, const Sample& sample) -> absl::Status {
        PSGD_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, images->Read(key.index));
        const absl::Status decoded = DecodeView(bytes, viewer, key, width, sample.values);
        if (!decoded.ok()) return Annotate(decoded, images->Name(key.index));
        sample.labels[0] = images->label(key.index);
        images->ReadTargets(key.index, sample.targets);
        return absl::OkStatus();
      });
}

absl::StatusOr<TrainAndTest> OpenImages(const DataConfig& config, uint64_t seed) {
  PSGD_ASSIGN_OR_RETURN(EncodedSets found, config.images().labels().empty()
                                               ? FindImages(config.path())
                                               : ListLabelledImages(config));
  const int size = config.images().size();
  const SampleShape shape = {.channels = ChannelsOf(config.images()),
                             .height = size,
                             .width = size,
                             .classes = found.classes,
                             .targets = static_cast<int>(found.targets.names.size())};
  TrainAndTest sets;
  sets.train = MakeImageDataset(std::move(found.train), shape,
                                Viewer::Augmented(config.images(), config.augment(), seed));
  sets.test = MakeImageDataset(std::move(found.test), shape, Viewer::Centred(config.images()));
  sets.targets = std::move(found.targets);
  sets.note = std::move(found.note);
  RecordClasses(found.class_names, &sets.preparation);
  return sets;
}

}  // namespace psgd
