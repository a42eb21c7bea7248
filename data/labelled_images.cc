#include "data/labelled_images.h"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/labelled_rows.h"
#include "data/range_file.h"
#include "data/row_targets.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

constexpr char kFileColumn[] = "file";

// A range of the rows of a table. Thread-safe: immutable.
class LabelledImages final : public EncodedImages {
 public:
  LabelledImages(std::string folder, std::shared_ptr<const LabelledRows> rows, size_t begin,
                 size_t end)
      : folder_(std::move(folder)), rows_(std::move(rows)), begin_(begin), size_(end - begin) {}

  size_t size() const override { return size_; }
  int32_t label(size_t index) const override { return rows_->targets.LabelOf(begin_ + index); }
  void ReadTargets(size_t index, std::span<float> targets) const override {
    rows_->targets.ReadTargets(begin_ + index, targets);
  }
  absl::StatusOr<std::vector<uint8_t>> Read(size_t index) const override {
    return ReadWholeFile(Name(index), kMostEncodedBytes);
  }
  std::string Name(size_t index) const override {
    return (fs::path(folder_) / rows_->fields[begin_ + index]).string();
  }

 private:
  const std::string folder_;
  const std::shared_ptr<const LabelledRows> rows_;
  const size_t begin_, size_;
};

absl::Status CheckFiles(const std::string& folder, const LabelledRows& rows) {
  std::unordered_map<std::string, size_t> seen;
  for (size_t row = 0; row < rows.fields.size(); ++row) {
    const std::string path = (fs::path(folder) / rows.fields[row]).string();
    const auto [first, is_new] = seen.emplace(fs::path(path).lexically_normal().string(), row);
    const auto bad = [&](absl::string_view problem) {
      return InvalidArgumentError(rows.places.FileLine(row), ": ", problem);
    };
    if (!is_new) {
      return bad(absl::StrCat("the file ", rows.fields[row], " comes twice, first in ",
                              rows.places.FileLine(first->second),
                              "; leave out one, or give each row all labels of its file"));
    }
    std::error_code error;
    if (fs::is_regular_file(path, error)) continue;
    return bad(
        absl::StrCat("there is no file ", path, "; the column \"file\" is relative to data.path"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EncodedSets> ListLabelledImages(const DataConfig& config) {
  const std::string& folder = config.path();
  LabelledRowsOptions options;
  options.files.path = (fs::path(folder) / config.images().labels()).string();
  if (!config.table().test().empty()) {
    options.files.test = (fs::path(folder) / config.table().test()).string();
  }
  options.files.test_fraction = config.table().test_fraction();
  options.target.assign(config.target().begin(), config.target().end());
  options.kind = config.target_kind();
  options.column = kFileColumn;
  options.column_key = "data.images.labels";
  PSGD_ASSIGN_OR_RETURN(LabelledRows read, ReadLabelledRows(options));
  PSGD_RETURN_IF_ERROR(CheckFiles(folder, read));
  const auto rows = std::make_shared<const LabelledRows>(std::move(read));
  EncodedSets sets;
  sets.train = std::make_shared<LabelledImages>(folder, rows, 0, rows->training);
  sets.test = std::make_shared<LabelledImages>(folder, rows, rows->training, rows->fields.size());
  sets.classes = rows->targets.classes;
  sets.targets = rows->targets.targets;
  sets.class_names = rows->targets.class_names;
  sets.note = TargetsNote(options.files.path, rows->targets, rows->training,
                          /*split=*/options.files.test.empty());
  return sets;
}

}  // namespace psgd
