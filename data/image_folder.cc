#include "data/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "data/folder_names.h"
#include "data/range_file.h"
#include "data/row_targets.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

// Image files in folders. Thread-safe: immutable.
class FolderImages final : public EncodedImages {
 public:
  FolderImages(std::string folder, std::vector<std::string> classes)
      : folder_(std::move(folder)), classes_(std::move(classes)) {}

  void Add(int32_t label, const std::string& name) {
    images_.push_back({names_.size(), label});
    names_.append(name.c_str(), name.size() + 1);
  }

  size_t size() const override { return images_.size(); }
  int32_t label(size_t index) const override { return images_[index].label; }
  absl::StatusOr<std::vector<uint8_t>> Read(size_t index) const override {
    return ReadWholeFile(Name(index), kMostEncodedBytes);
  }
  std::string Name(size_t index) const override {
    const Image& image = images_[index];
    return absl::StrCat(folder_, "/", classes_[static_cast<size_t>(image.label)], "/",
                        names_.c_str() + image.name);
  }

 private:
  struct Image {
    uint64_t name;  // start of the name in names_
    int32_t label;
  };

  const std::string folder_;
  const std::vector<std::string> classes_;
  std::vector<Image> images_;
  std::string names_;  // one after another, each with a zero at its end
};

// Lists the images of all classes in turn. `present`: the classes that have a folder here.
absl::StatusOr<std::shared_ptr<const EncodedImages>> ListSet(
    const std::string& folder, const std::vector<std::string>& classes,
    const std::vector<std::string>& present) {
  std::vector<std::pair<int32_t, std::vector<std::string>>> files;
  size_t most = 0;
  for (const std::string& name : present) {
    const auto known = std::lower_bound(classes.begin(), classes.end(), name);
    const std::string path = absl::StrCat(folder, "/", name);
    if (known == classes.end() || *known != name) {
      return InvalidArgumentError(
          path, ": there is no training image of this class; add some, or remove the folder");
    }
    PSGD_ASSIGN_OR_RETURN(std::vector<std::string> names, PictureNames(path));
    if (names.empty()) {
      return InvalidArgumentError(
          path, ": holds no .jpg, .jpeg or .png file; add some, or remove the folder");
    }
    most = std::max(most, names.size());
    files.emplace_back(static_cast<int32_t>(known - classes.begin()), std::move(names));
  }
  auto images = std::make_shared<FolderImages>(folder, classes);
  for (size_t turn = 0; turn < most; ++turn) {
    for (const auto& [label, names] : files) {
      if (turn < names.size()) images->Add(label, names[turn]);
    }
  }
  return images;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> PictureNames(const std::string& folder) {
  return FileNames(folder, {".jpg", ".jpeg", ".png"});
}

absl::StatusOr<std::string> TestFolder(const std::string& folder) {
  std::error_code error;
  for (const char* name : {"test", "val"}) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (fs::is_directory(path, error)) return path;
  }
  for (const char* name : {"valid", "validation", "dev", "eval", "Test", "Val"}) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (!fs::is_directory(path, error)) continue;
    return NotFoundError(folder, ": has a folder train, but neither test nor val; rename ", path,
                         " to val");
  }
  return NotFoundError(folder,
                       ": has a folder train, but neither test nor val; runs are evaluated on one "
                       "of them: move some of the files to folders of the same names in ",
                       folder, "/test");
}

absl::StatusOr<EncodedSets> ListImageFolders(const std::string& folder) {
  const std::string train = absl::StrCat(folder, "/train");
  PSGD_ASSIGN_OR_RETURN(const std::string test, TestFolder(folder));
  PSGD_ASSIGN_OR_RETURN(const std::vector<std::string> classes, ClassFolders(train));
  if (classes.size() < 2) {
    return InvalidArgumentError(train,
                                " has one folder; classes are at least 2, each in its own folder");
  }
  PSGD_ASSIGN_OR_RETURN(const std::vector<std::string> tested, ClassFolders(test));
  EncodedSets sets;
  sets.classes = static_cast<int>(classes.size());
  PSGD_ASSIGN_OR_RETURN(sets.train, ListSet(train, classes, classes));
  PSGD_ASSIGN_OR_RETURN(sets.test, ListSet(test, classes, tested));
  sets.class_names = classes;
  std::vector<bool> has_test;
  for (const std::string& name : classes) has_test.push_back(std::ranges::count(tested, name) > 0);
  sets.note = ClassesText(classes, has_test);
  return sets;
}

}  // namespace psgd
