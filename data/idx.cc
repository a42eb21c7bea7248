#include "data/idx.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <memory>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "data/arrays.h"
#include "data/npy.h"
#include "data/row_targets.h"
#include "data/targets.h"
#include "data/unpacked_file.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

// The types of elements, as the header and as NumPy call them.
struct IdxType {
  uint8_t code;
  const char* name;
  size_t bytes;
};
constexpr uint8_t kBytesType = 0x08, kFirstFloatType = 0x0d;
constexpr IdxType kIdxTypes[] = {{kBytesType, "|u1", 1}, {0x09, "|i1", 1}, {0x0b, "<i2", 2},
                                 {0x0c, "<i4", 4},       {0x0d, "<f4", 4}, {0x0e, "<f8", 8}};
constexpr uint32_t kLargestSide = 1 << 14;
constexpr std::array<const char*, 4> kStems{"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                            "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

struct IdxArray {
  std::string path;
  const IdxType* type = nullptr;
  std::vector<uint32_t> sizes;
  uint64_t bytes = 0;
  std::unique_ptr<uint8_t[]> values;  // big-endian
};

// Samples of images of bytes. `first` is the row of the first image.
std::shared_ptr<const Dataset> ByteSamples(IdxArray images, std::shared_ptr<const RowTargets> rows,
                                           size_t first) {
  const SampleShape shape = {.channels = 1,
                             .height = static_cast<int>(images.sizes[1]),
                             .width = static_cast<int>(images.sizes[2]),
                             .classes = rows->classes,
                             .targets = static_cast<int>(rows->targets.names.size())};
  const auto read = [bytes = std::shared_ptr<const uint8_t[]>(std::move(images.values)), rows,
                     first, each = shape.elements()](const SampleKey& key, const Sample& sample) {
    const uint8_t* image = bytes.get() + key.index * each;
    float* out = sample.values.data();
    for (size_t i = 0; i < each; ++i) out[i] = static_cast<float>(image[i]) / 255.0f;
    rows->Read(first + key.index, sample);
    return absl::OkStatus();
  };
  return std::make_shared<ReadDataset>(images.sizes[0], shape, read);
}

absl::Status Missing(const std::string& folder, const std::vector<std::string>& stems) {
  std::error_code error;
  const bool there = fs::is_directory(folder, error);
  absl::string_view trimmed = folder;
  while (absl::ConsumeSuffix(&trimmed, "/")) {
  }
  return NotFoundError("no dataset in ", folder, there ? "" : " (no such folder)", ": looked for ",
                       absl::StrJoin(stems, ", "), ", each plain or .gz; ",
                       absl::EndsWith(trimmed, "/fashion-mnist")
                           ? "install it with `apt-get install dataset-fashion-mnist`, into "
                             "/usr/share/datasets/fashion-mnist, or "
                           : "",
                       "check data.path");
}

// Returns the paths of the four files, in the order of kStems.
absl::StatusOr<std::vector<std::string>> FindFiles(const std::string& folder) {
  std::vector<std::string> paths;
  std::vector<std::string> missing;
  for (const char* stem : kStems) {
    const std::string plain = (fs::path(folder) / stem).string();
    std::error_code error;
    if (fs::exists(plain, error)) {
      paths.push_back(plain);
    } else if (fs::exists(plain + ".gz", error)) {
      paths.push_back(plain + ".gz");
    } else {
      missing.push_back(stem);
    }
  }
  if (!missing.empty()) return Missing(folder, missing);
  return paths;
}

uint32_t BigEndian(const uint8_t* bytes) {
  return static_cast<uint32_t>(bytes[0]) << 24 | static_cast<uint32_t>(bytes[1]) << 16 |
         static_cast<uint32_t>(bytes[2]) << 8 | static_cast<uint32_t>(bytes[3]);
}

absl::StatusOr<IdxArray> ReadArray(const std::string& path, size_t dimensions) {
  PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<UnpackedFile> file, UnpackedFile::Open(path));
  uint8_t magic[4];
  PSGD_RETURN_IF_ERROR(file->Read(magic));
  if (magic[0] != 0 || magic[1] != 0) {
    return file->Bad("is not an idx file: it does not begin with two zero bytes; check data.path");
  }
  const auto type =
      std::ranges::find_if(kIdxTypes, [&](const IdxType& one) { return one.code == magic[2]; });
  if (type == std::end(kIdxTypes)) {
    return file->Bad(absl::StrCat("holds values of type 0x", absl::Hex(magic[2], absl::kZeroPad2),
                                  "; bytes (0x08, 0x09), whole numbers (0x0b, 0x0c) and floats "
                                  "(0x0d, 0x0e) can be read"));
  }
  if (dimensions == 3 && magic[3] == 4) {
    return file->Bad(
        "has 4 dimensions, and images of this format are grey; write colours as arrays, samples x "
        "channels x height x width (data.format: arrays)");
  }
  if (magic[3] != dimensions) {
    return file->Bad(absl::StrCat("has ", magic[3], " dimensions instead of ", dimensions,
                                  "; are image and label files mixed up?"));
  }
  IdxArray array{path, type, {}, type->bytes, nullptr};
  for (size_t i = 0; i < dimensions; ++i) {
    uint8_t bytes[4];
    PSGD_RETURN_IF_ERROR(file->Read(bytes));
    array.sizes.push_back(BigEndian(bytes));
    if (array.sizes[i] == 0) return file->Bad("is empty: its header announces a size of 0");
    if (i > 0 && array.sizes[i] > kLargestSide) {
      return file->Bad(absl::StrCat("announces images ", array.sizes[i], " pixels long; at most ",
                                    kLargestSide, " can be read"));
    }
    array.bytes *= array.sizes[i];
  }
  if (array.bytes > file->most_bytes()) {
    return file->Bad(absl::StrCat("announces ", absl::StrJoin(array.sizes, "x"), " values of ",
                                  type->bytes, type->bytes == 1 ? " byte" : " bytes",
                                  ", more than the file can hold; fetch it again"));
  }
  // Left uninitialized: memory for which no data arrives is never touched.
  array.values = std::make_unique_for_overwrite<uint8_t[]>(array.bytes);
  PSGD_RETURN_IF_ERROR(file->Read({array.values.get(), array.bytes}));
  PSGD_RETURN_IF_ERROR(file->ExpectEnd());
  return array;
}

absl::Status CheckPair(const IdxArray& images, const IdxArray& labels) {
  if (images.sizes[0] == labels.sizes[0]) return absl::OkStatus();
  return DataLossError(images.path, " holds ", images.sizes[0], " images, but ", labels.path,
                       " holds ", labels.sizes[0],
                       " labels; the files do not belong together: fetch both again");
}

absl::Status CheckSides(const IdxArray& train, const IdxArray& test) {
  if (train.sizes[1] != test.sizes[1] || train.sizes[2] != test.sizes[2]) {
    return DataLossError(test.path, " holds images of ", test.sizes[1], "x", test.sizes[2],
                         ", but ", train.path, " of ", train.sizes[1], "x", train.sizes[2],
                         "; the files do not belong together");
  }
  return absl::OkStatus();
}

NpyArray LittleEndian(const IdxArray& array) {
  std::vector<uint8_t> bytes(array.values.get(), array.values.get() + array.bytes);
  for (size_t i = 0; i < bytes.size(); i += array.type->bytes) {
    const auto element = bytes.begin() + static_cast<ptrdiff_t>(i);
    std::reverse(element, element + static_cast<ptrdiff_t>(array.type->bytes));
  }
  return NpyArray::Of(array.type->name, {array.sizes.begin(), array.sizes.end()}, std::move(bytes));
}

// The labels of images of bytes. Classes are numbered as the labels are.
class Labels {
 public:
  Labels(const IdxArray& train, const IdxArray& test)
      : paths_{train.path, test.path}, training_(train.sizes[0]) {
    for (const IdxArray* array : {&train, &test}) {
      const NpyArray numbers = LittleEndian(*array);
      for (size_t i = 0; i < numbers.size(); ++i) numbers_.push_back(numbers.At(i));
    }
  }

  absl::StatusOr<RowTargets> Of(Targets::Kind kind) const {
    if (kind == Targets::Kind::kNone) return Classes();
    return CheckedTargets(kind, {"y"}, numbers_, training_,
                          [this](size_t row) { return Place(row); });
  }

  std::string NoteOf(const RowTargets& rows) const {
    if (rows.labels.empty()) return "";
    return UnusedClassesNote(std::span(rows.labels).first(training_),
                             [this](size_t row) { return Place(row); });
  }

 private:
  std::string Place(size_t row) const {
    const bool test = row >= training_;
    return absl::StrCat(paths_[test ? 1 : 0], ": label ", row - (test ? training_ : 0));
  }

  absl::StatusOr<RowTargets> Classes() const {
    RowTargets rows;
    for (const double number : numbers_) {
      const size_t row = rows.labels.size();
      if (!(number >= 0 && number < kMostNumberClasses && number == std::floor(number))) {
        return InvalidArgumentError(
            Place(row), " is ", number, "; classes are whole numbers from 0 to ",
            kMostNumberClasses - 1,
            ": renumber them, or say that labels are numbers (data.target_kind: number, with "
            "model.loss: squared or smooth_l1)");
      }
      const auto label = static_cast<int32_t>(number);
      if (row < training_) {
        rows.classes = std::max(rows.classes, label + 1);
      } else if (label >= rows.classes) {
        return DataLossError(Place(row), " is ", label, ", but the training labels end at ",
                             rows.classes - 1,
                             "; the files do not belong together, or one is damaged");
      }
      rows.labels.push_back(label);
    }
    if (rows.classes < 2) {
      return InvalidArgumentError(paths_[0],
                                  ": all labels are 0; classes are at least 2: is it the file of "
                                  "the labels?");
    }
    return rows;
  }

  const std::array<std::string, 2> paths_;  // of the training, of the test
  const size_t training_;
  std::vector<double> numbers_;  // of the training, then of the test
};

ArrayPair PairOf(const IdxArray& images, const IdxArray& labels) {
  return {fs::path(images.path).parent_path().string(), LittleEndian(images), LittleEndian(labels),
          fs::path(images.path).filename().string(), fs::path(labels.path).filename().string()};
}

}  // namespace

absl::StatusOr<TrainAndTest> LoadIdx(const std::string& folder, DataConfig::TargetKind kind) {
  PSGD_ASSIGN_OR_RETURN(const std::vector<std::string> paths, FindFiles(folder));
  PSGD_ASSIGN_OR_RETURN(IdxArray train_images, ReadArray(paths[0], 3));
  PSGD_ASSIGN_OR_RETURN(IdxArray train_labels, ReadArray(paths[1], 1));
  PSGD_ASSIGN_OR_RETURN(IdxArray test_images, ReadArray(paths[2], 3));
  PSGD_ASSIGN_OR_RETURN(IdxArray test_labels, ReadArray(paths[3], 1));
  PSGD_RETURN_IF_ERROR(CheckPair(train_images, train_labels));
  PSGD_RETURN_IF_ERROR(CheckPair(test_images, test_labels));
  if (kind == DataConfig::AUTO && train_labels.type->code >= kFirstFloatType) {
    return InvalidArgumentError(
        train_labels.path,
        " holds floats; say what they are: data.target_kind: number, with model.loss: squared (or "
        "smooth_l1), or count, labels or class");
  }
  const bool bytes = train_images.type->code == kBytesType;
  if (bytes != (test_images.type->code == kBytesType)) {
    return DataLossError(test_images.path, " and ", train_images.path,
                         " hold images of different types, of which one is bytes; the files do not "
                         "belong together: write both with the same type");
  }
  if (!bytes) {
    std::vector<ArrayPair> pairs;
    pairs.push_back(PairOf(train_images, train_labels));
    pairs.push_back(PairOf(test_images, test_labels));
    return LoadArrayPairs(std::move(pairs), {.path = folder, .kind = kind});
  }
  PSGD_RETURN_IF_ERROR(CheckSides(train_images, test_images));
  const Labels labels(train_labels, test_labels);
  PSGD_ASSIGN_OR_RETURN(RowTargets targets, labels.Of(KindOf(kind)));
  const auto rows = std::make_shared<const RowTargets>(std::move(targets));
  return TrainAndTest{ByteSamples(std::move(train_images), rows, 0),
                      ByteSamples(std::move(test_images), rows, train_labels.sizes[0]),
                      rows->targets,
                      {},
                      labels.NoteOf(*rows)};
}

}  // namespace psgd
