#include "experiment/config/validate_data.h"

#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/target_kind.h"

namespace psgd {
namespace {

using Problems = std::vector<std::string>;

// What a format reads from data.path. Null: another function checks the format.
const char* FolderOf(DataConfig::Format format) {
  switch (format) {
    case DataConfig::CIFAR10:
      return "data_batch_1.bin and its siblings";
    case DataConfig::CIFAR100:
      return "train.bin and test.bin";
    case DataConfig::IMAGES:
      return "train/CLASS/*.jpg and test/CLASS/*.jpg (or .png), train-*.tar and test-*.tar, or the "
             "files of data.images.labels";
    case DataConfig::SEGMENTATION:
      return "train/images, train/masks, test/images and test/masks";
    default:
      return nullptr;
  }
}

bool IsDefault(const ImagesConfig& images) {
  const ImagesConfig& off = ImagesConfig::default_instance();
  return images.size() == off.size() && images.resize() == off.resize() &&
         images.skip_damaged() == off.skip_damaged() && images.channels() == off.channels() &&
         images.classes() == off.classes() && images.labels().empty();
}

void CheckSizes(const ImagesConfig& images, Problems* problems) {
  if (images.channels() == 2) {
    problems->push_back("data.images.channels is 2: say 1 for grey pictures, 3 for coloured ones");
  }
  if (images.resize() != 0 && images.resize() < images.size()) {
    problems->push_back(absl::StrCat("data.images.resize is ", images.resize(),
                                     ", less than the data.images.size of ", images.size(),
                                     " that is then cut out: make it larger, or 0 for 8/7 of it"));
  }
}

void CheckClasses(const DataConfig& data, Problems* problems) {
  const bool segmentation = data.format() == DataConfig::SEGMENTATION;
  if (segmentation && data.images().classes() < 2) {
    problems->push_back(
        "data.images.classes is missing: format segmentation needs the number of classes that the "
        "pixels of masks have, at least 2");
  }
  if (!segmentation && data.images().classes() != 0) {
    problems->push_back(
        "data.images.classes is for format segmentation; format images finds its classes itself: "
        "leave it out");
  }
}

void CheckLabelsTable(const DataConfig& data, Problems* problems) {
  const bool table = !data.images().labels().empty();
  if (table && data.format() == DataConfig::SEGMENTATION) {
    problems->push_back(
        "data.images.labels is for format images; format segmentation has masks: leave it out");
  }
  if (!table && !data.table().test().empty()) {
    problems->push_back(
        "data.table.test does nothing with images that have no data.images.labels: leave it out");
  }
  if (!table && data.table().test_fraction() != TableConfig::default_instance().test_fraction()) {
    problems->push_back(
        "data.table.test_fraction does nothing with images that have no data.images.labels: put "
        "the test's images into a folder test, or leave it out");
  }
}

void CheckAugmentation(const AugmentConfig& augment, DataConfig::Format format,
                       Problems* problems) {
  const bool pictures = format == DataConfig::IMAGES || format == DataConfig::SEGMENTATION;
  if (augment.resized_crop() && !pictures) {
    problems->push_back(
        "data.augment.resized_crop is for formats images and segmentation: use "
        "data.augment.crop_padding, or leave it out");
  }
  const AugmentConfig& off = AugmentConfig::default_instance();
  if (!augment.resized_crop() &&
      (augment.crop_area() != off.crop_area() || augment.crop_ratio() != off.crop_ratio())) {
    problems->push_back(
        "data.augment.crop_area and crop_ratio do nothing without data.augment.resized_crop: set "
        "it to true, or leave them out");
  }
  if (format == DataConfig::SEGMENTATION && augment.crop_padding() != 0) {
    problems->push_back(
        "data.augment.crop_padding does not move masks: use data.augment.resized_crop with format "
        "segmentation");
  }
}

std::string FormatName(const DataConfig& data) {
  return absl::AsciiStrToLower(DataConfig::Format_Name(data.format()));
}

bool IsDefault(const TranslationConfig& translation) {
  const TranslationConfig& off = TranslationConfig::default_instance();
  return translation.source_length() == off.source_length() &&
         translation.target_length() == off.target_length() &&
         translation.test_fraction() == off.test_fraction();
}

// With formats whose samples have classes by nature.
void CheckClassesAlone(const Config& config, Problems* problems) {
  const std::string format = FormatName(config.data());
  if (!HasClasses(config.data())) {
    problems->push_back(absl::StrCat("data.target_kind does nothing with format ", format,
                                     ", whose samples have classes: leave it out"));
  }
  if (config.model().loss() == ModelConfig::POISSON) {
    problems->push_back(absl::StrCat("model.loss is poisson, which is of counts, and samples of ",
                                     "format ", format, " have classes: use cross_entropy"));
  }
}

void CheckKindFitsLoss(const Config& config, Problems* problems) {
  const DataConfig::TargetKind wanted = TargetKindOf(config);
  if (config.data().target_kind() == wanted || config.data().target_kind() == DataConfig::AUTO)
    return;
  const auto name = [](DataConfig::TargetKind kind) {
    return absl::AsciiStrToLower(DataConfig::TargetKind_Name(kind));
  };
  problems->push_back(absl::StrCat(
      "data.target_kind is ", name(config.data().target_kind()), ", but model.loss is ",
      absl::AsciiStrToLower(ModelConfig::Loss_Name(config.model().loss())), ", which is of ",
      name(wanted),
      ": leave target_kind out, and set model.loss to cross_entropy for a class, to squared or "
      "smooth_l1 for numbers, to poisson for counts, or to sigmoid for labels"));
}

// Which keys name columns of a table.
struct ColumnKeys {
  bool target = false;
  bool columns = false;
  bool categories = false;
};

ColumnKeys ColumnKeysOf(const DataConfig& data) {
  switch (data.format()) {
    case DataConfig::TABLE:
      return {true, true, true};
    case DataConfig::TEXT_CLASSES:
      return {true, true, false};
    default:
      return {data.format() == DataConfig::IMAGES && HasTargetKind(data), false, false};
  }
}

// What a format with targets reads from data.path; null: another function checks it.
const char* FileOf(DataConfig::Format format) {
  switch (format) {
    case DataConfig::TABLE:
      return "a file of comma- or tab-separated values";
    case DataConfig::ARRAYS:
      return "an .npz file with x and y";
    default:
      return nullptr;
  }
}

}  // namespace

void CheckImageKeys(const DataConfig& data, Problems* problems) {
  const std::string format = FormatName(data);
  if (const char* folder = FolderOf(data.format()); folder != nullptr && data.path().empty()) {
    problems->push_back(absl::StrCat("data.path is missing: format ", format,
                                     " needs the folder that holds ", folder));
  }
  CheckAugmentation(data.augment(), data.format(), problems);
  if (data.format() == DataConfig::IMAGES || data.format() == DataConfig::SEGMENTATION) {
    CheckSizes(data.images(), problems);
    CheckClasses(data, problems);
    CheckLabelsTable(data, problems);
  } else if (!IsDefault(data.images())) {
    problems->push_back(absl::StrCat("data.images does nothing with format ", format,
                                     ": leave it out, or set data.format to images"));
  }
}

// What stands for data.standardize with this format.
const char* StandardizeText(DataConfig::Format format) {
  switch (format) {
    case DataConfig::LIBSVM:
    case DataConfig::TEXT_CLASSES:
      return "; it reads inputs as they are, and always standardizes numbers to predict";
    case DataConfig::IDX:
    case DataConfig::SYNTHETIC:
    case DataConfig::CIFAR10:
    case DataConfig::CIFAR100:
    case DataConfig::IMAGES:
    case DataConfig::SEGMENTATION:
      return "; images have data.mean and data.stddev";
    default:
      return "";
  }
}

void CheckTargetKeys(const Config& config, Problems* problems) {
  const DataConfig& data = config.data();
  const std::string format = FormatName(data);
  const ColumnKeys used = ColumnKeysOf(data);
  for (const auto& [key, count, does] :
       {std::tuple{"target", data.target_size(), used.target},
        std::tuple{"columns", data.columns_size(), used.columns},
        std::tuple{"categories", data.categories_size(), used.categories}}) {
    if (count == 0 || does) continue;
    problems->push_back(absl::StrCat(
        "data.", key, " does nothing with format ", format,
        data.format() == DataConfig::IMAGES && !HasTargetKind(data)
            ? " without data.images.labels: name the table of labels there, or leave it out"
        : data.format() == DataConfig::TEXT && key != std::string("categories")
            ? ": leave it out, or set data.format to text_classes to learn labels of texts"
            : ": leave it out, or set data.format to table"));
  }
  if (data.input() != ArrayInput::AUTO && data.format() != DataConfig::ARRAYS) {
    problems->push_back(absl::StrCat("data.input does nothing with format ", format,
                                     ": leave it out, or set data.format to arrays"));
  }
  if (!data.standardize() && data.format() != DataConfig::ARRAYS &&
      data.format() != DataConfig::TABLE) {
    problems->push_back(absl::StrCat("data.standardize does nothing with format ", format,
                                     ": leave it out", StandardizeText(data.format())));
  }
  if (!HasTargetKind(data)) return CheckClassesAlone(config, problems);
  if (const char* file = FileOf(data.format()); file != nullptr && data.path().empty()) {
    problems->push_back(absl::StrCat("data.path is missing: format ", format, " needs ", file));
  }
  const bool needs_target = used.target && data.format() != DataConfig::TEXT_CLASSES;
  if (needs_target && data.target().empty()) {
    problems->push_back(
        "data.target is missing: name the column that is to be predicted, or a list of columns");
  }
  if (data.table().features() != 0 && data.format() != DataConfig::LIBSVM) {
    problems->push_back(
        absl::StrCat("data.table.features does nothing with format ", format, ": leave it out"));
  }
  CheckKindFitsLoss(config, problems);
}

void CheckSequenceKeys(const DataConfig& data, Problems* problems) {
  const bool text = data.format() == DataConfig::TEXT;
  const bool translation = data.format() == DataConfig::TRANSLATION;
  const bool text_classes = data.format() == DataConfig::TEXT_CLASSES;
  const std::string format = FormatName(data);
  if (text && data.path().empty()) {
    problems->push_back(
        "data.path is missing: format text needs a file, or a folder of files, to read");
  }
  if (translation && data.path().empty()) {
    problems->push_back(
        "data.path is missing: format translation needs a file of lines of a source, a tab and its "
        "target");
  }
  if (text_classes && data.path().empty()) {
    problems->push_back(
        "data.path is missing: format text_classes needs a table of texts, or a folder with a "
        "folder of texts for each class");
  }
  if (text_classes &&
      data.text().test_fraction() != TextConfig::default_instance().test_fraction()) {
    problems->push_back(
        "data.text.test_fraction does nothing with format text_classes: use "
        "data.table.test_fraction");
  }
  if (!translation && !IsDefault(data.translation())) {
    problems->push_back(absl::StrCat("data.translation does nothing with format ", format,
                                     ": leave it out, or set data.format to translation"));
  }
  if (data.tokens() != DataConfig::BYTES && !text && !translation && !text_classes) {
    problems->push_back(
        absl::StrCat("data.tokens does nothing with format ", format,
                     ": leave it out, or set data.format to text, text_classes or translation"));
  }
  if (data.tokens() == DataConfig::BYTES &&
      data.vocabulary() != DataConfig::default_instance().vocabulary()) {
    problems->push_back(
        "data.vocabulary does nothing with bytes, of which there are 256: leave it out, or set "
        "data.tokens to bpe");
  }
}

}  // namespace psgd
