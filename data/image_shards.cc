#include "data/image_shards.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "data/range_file.h"
#include "data/row_targets.h"
#include "data/tar.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostLabelBytes = 32;
constexpr int32_t kMostClasses = 1 << 20;

struct ShardImage {
  uint64_t begin = 0;  // of the member
  uint32_t shard = 0;
  uint32_t header_bytes = 0;  // from `begin` to the data
  uint32_t size = 0;
  int32_t label = -1;
};
static_assert(sizeof(ShardImage) == 24);

// Images in archives. Thread-safe: immutable. Archives are opened per image: there may be many.
class ShardImages final : public EncodedImages {
 public:
  ShardImages(std::vector<std::string> shards, std::vector<ShardImage> images)
      : shards_(std::move(shards)), images_(std::move(images)) {}

  size_t size() const override { return images_.size(); }
  int32_t label(size_t index) const override { return images_[index].label; }
  absl::StatusOr<std::vector<uint8_t>> Read(size_t index) const override {
    const ShardImage& image = images_[index];
    PSGD_ASSIGN_OR_RETURN(const RangeFile file, RangeFile::Open(shards_[image.shard]));
    std::vector<uint8_t> bytes(image.size);
    PSGD_RETURN_IF_ERROR(file.Read(image.begin + image.header_bytes, bytes));
    return bytes;
  }
  std::string Name(size_t index) const override {
    const ShardImage& image = images_[index];
    const std::string& path = shards_[image.shard];
    // Names are rarely needed, so they are not kept.
    if (const auto file = RangeFile::Open(path); file.ok()) {
      const auto member = TarReader(&*file, image.begin).Next();
      if (member.ok() && *member) return absl::StrCat(path, ", member ", (*member)->name);
    }
    return absl::StrCat(path, ", member at byte ", image.begin);
  }

 private:
  const std::vector<std::string> shards_;
  const std::vector<ShardImage> images_;
};

// The members of one key, as they are read.
struct Group {
  std::string key;
  std::optional<ShardImage> image;
  std::optional<int32_t> label;
};

class ShardIndexer {
 public:
  absl::Status Add(uint32_t shard, const std::string& path) {
    PSGD_ASSIGN_OR_RETURN(const RangeFile file, RangeFile::Open(path));
    TarReader reader(&file);
    Group group;
    while (true) {
      PSGD_ASSIGN_OR_RETURN(const std::optional<TarMember> member, reader.Next());
      if (!member) return Finish(path, &group);
      const size_t slash = member->name.rfind('/');
      const size_t dot = member->name.find('.', slash == std::string::npos ? 0 : slash + 1);
      if (dot == std::string::npos) continue;
      std::string key = member->name.substr(0, dot);
      if (key != group.key) {
        PSGD_RETURN_IF_ERROR(Finish(path, &group));
        group.key = std::move(key);
      }
      PSGD_RETURN_IF_ERROR(
          Take(file, shard, *member, absl::AsciiStrToLower(member->name.substr(dot + 1)), &group));
    }
  }

  std::vector<ShardImage> TakeImages() { return std::move(images_); }

 private:
  static absl::Status Bad(const std::string& path, const std::string& name,
                          absl::string_view problem) {
    return DataLossError(path, ": member ", name, " ", problem, "; make the archive again");
  }

  static absl::Status Take(const RangeFile& file, uint32_t shard, const TarMember& member,
                           const std::string& kind, Group* group) {
    const std::string& path = file.path();
    if (kind == "cls") {
      if (group->label) return Bad(path, member.name, "comes twice");
      if (member.size > kMostLabelBytes) return Bad(path, member.name, "is too long for a number");
      std::string text(member.size, '\0');
      PSGD_RETURN_IF_ERROR(
          file.Read(member.offset, {reinterpret_cast<uint8_t*>(text.data()), text.size()}));
      int32_t label = -1;
      if (!absl::SimpleAtoi(text, &label) || label < 0 || label >= kMostClasses) {
        return Bad(path, member.name,
                   absl::StrCat("is not the number of a class, from 0 to ", kMostClasses - 1));
      }
      group->label = label;
    } else if (kind == "jpg" || kind == "jpeg" || kind == "png") {
      if (group->image) return Bad(path, member.name, "comes twice");
      if (member.size > kMostEncodedBytes) {
        return Bad(path, member.name, absl::StrCat("has ", member.size, " bytes, too many"));
      }
      group->image = ShardImage{.begin = member.begin,
                                .shard = shard,
                                .header_bytes = static_cast<uint32_t>(member.offset - member.begin),
                                .size = static_cast<uint32_t>(member.size)};
    }
    return absl::OkStatus();
  }

  // A label without an image may belong to an image of another kind.
  absl::Status Finish(const std::string& path, Group* group) {
    if (group->image && !group->label) {
      return Bad(path, absl::StrCat(group->key, ".jpg"),
                 "has no .cls member beside it (tar --sort=name keeps them together)");
    }
    if (group->image) {
      group->image->label = *group->label;
      images_.push_back(*group->image);
    }
    *group = Group();
    return absl::OkStatus();
  }

  std::vector<ShardImage> images_;
};

std::vector<std::string> ShardsOf(const std::string& folder, const std::string& set) {
  std::vector<std::string> shards;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (absl::StartsWith(name, set + "-") && absl::EndsWith(name, ".tar")) {
      shards.push_back(absl::StrCat(folder, "/", name));
    }
  }
  std::sort(shards.begin(), shards.end());
  return shards;
}

absl::StatusOr<std::shared_ptr<const EncodedImages>> IndexSet(std::vector<std::string> shards) {
  ShardIndexer indexer;
  for (size_t i = 0; i < shards.size(); ++i) {
    PSGD_RETURN_IF_ERROR(indexer.Add(static_cast<uint32_t>(i), shards[i]));
  }
  std::vector<ShardImage> images = indexer.TakeImages();
  if (images.empty()) {
    return InvalidArgumentError(
        shards.front(), shards.size() > 1 ? " and those beside it hold" : ": holds",
        " no pair of KEY.jpg or KEY.png and KEY.cls; see docs/data.md for the layout");
  }
  return std::make_shared<ShardImages>(std::move(shards), std::move(images));
}

std::vector<int32_t> LabelsOf(const EncodedImages& images) {
  std::vector<int32_t> labels;
  for (size_t i = 0; i < images.size(); ++i) labels.push_back(images.label(i));
  return labels;
}

}  // namespace

bool HasImageShards(const std::string& folder) { return !ShardsOf(folder, "train").empty(); }

absl::StatusOr<EncodedSets> IndexImageShards(const std::string& folder) {
  std::vector<std::string> test = ShardsOf(folder, "test");
  if (test.empty()) test = ShardsOf(folder, "val");
  if (test.empty()) {
    return NotFoundError(folder,
                         ": has train-*.tar, but neither test-*.tar nor val-*.tar; runs are "
                         "evaluated on one of them");
  }
  EncodedSets sets;
  PSGD_ASSIGN_OR_RETURN(sets.train, IndexSet(ShardsOf(folder, "train")));
  PSGD_ASSIGN_OR_RETURN(sets.test, IndexSet(std::move(test)));
  const std::vector<int32_t> labels = LabelsOf(*sets.train);
  sets.classes = std::max(0, *std::ranges::max_element(labels)) + 1;
  if (sets.classes < 2) {
    return InvalidArgumentError(folder,
                                ": all .cls members of train-*.tar are 0; classes are at least 2");
  }
  for (size_t i = 0; i < sets.test->size(); ++i) {
    if (sets.test->label(i) < sets.classes) continue;
    return DataLossError(sets.test->Name(i), ": is of class ", sets.test->label(i),
                         ", but the training labels end at ", sets.classes - 1,
                         "; the archives do not belong together");
  }
  sets.note = UnusedClassesNote(labels, [&](size_t i) { return sets.train->Name(i); });
  return sets;
}

}  // namespace psgd
