#include "data/cifar.h"

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "data/range_file.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPixels = 3 * 32 * 32;
constexpr uint64_t kMostBytes = uint64_t{4} << 30;  // the published files hold 31 to 154 MB

struct Layout {
  const char* folder;  // name in the published archive
  std::vector<std::string> train;
  std::vector<std::string> test;
  size_t labels;  // bytes before the pixels; the last one counts
  int classes;

  size_t record() const { return labels + kPixels; }
};

Layout LayoutOf(CifarKind kind) {
  if (kind == CifarKind::kCifar100) {
    return {"cifar-100-binary", {"train.bin"}, {"test.bin"}, 2, 100};
  }
  Layout layout{"cifar-10-batches-bin", {}, {"test_batch.bin"}, 1, 10};
  for (int i = 1; i <= 5; ++i) layout.train.push_back(absl::StrCat("data_batch_", i, ".bin"));
  return layout;
}

// Images in memory. Thread-safe: immutable.
class CifarDataset final : public Dataset {
 public:
  CifarDataset(std::vector<std::vector<uint8_t>> files, const Layout& layout)
      : files_(std::move(files)), labels_(layout.labels), classes_(layout.classes) {
    for (const std::vector<uint8_t>& file : files_) {
      for (size_t at = 0; at < file.size(); at += layout.record()) {
        records_.push_back(file.data() + at);
      }
    }
  }

  size_t size() const override { return records_.size(); }
  SampleShape shape() const override { return {3, 32, 32, classes_}; }
  absl::Status Read(const SampleKey& key, const Sample& sample) const override {
    const uint8_t* bytes = records_[key.index] + labels_;
    for (size_t i = 0; i < kPixels; ++i) sample.values[i] = static_cast<float>(bytes[i]) / 255.0f;
    sample.labels[0] = bytes[-1];
    return absl::OkStatus();
  }

 private:
  const std::vector<std::vector<uint8_t>> files_;
  const size_t labels_;
  const int classes_;
  std::vector<const uint8_t*> records_;
};

absl::Status CheckFilesAreThere(const Layout& layout, const std::string& folder) {
  std::error_code error;
  std::vector<std::string> missing;
  for (const auto* names : {&layout.train, &layout.test}) {
    for (const std::string& name : *names) {
      if (!fs::exists(fs::path(folder) / name, error)) missing.push_back(name);
    }
  }
  if (missing.empty()) return absl::OkStatus();
  const bool inside = fs::is_directory(fs::path(folder) / layout.folder, error);
  return NotFoundError(
      folder, fs::is_directory(folder, error) ? " lacks " : " is no folder: looked in it for ",
      absl::StrJoin(missing, ", "), "; set data.path to ",
      inside ? (fs::path(folder) / layout.folder).string()
             : absl::StrCat("the unpacked folder ", layout.folder, " of the binary version"));
}

absl::StatusOr<std::vector<uint8_t>> ReadRecords(const Layout& layout, const std::string& path) {
  PSGD_ASSIGN_OR_RETURN(std::vector<uint8_t> bytes, ReadWholeFile(path, kMostBytes));
  const size_t record = layout.record();
  if (bytes.empty()) return DataLossError(path, ": is empty; fetch it again");
  if (const size_t rest = bytes.size() % record; rest != 0) {
    return DataLossError(path, ": ends within record ", bytes.size() / record,
                         ", which begins at byte ", bytes.size() - rest, " and has only ", rest,
                         " of ", record,
                         " bytes; it is truncated, or not of the binary version: fetch it again");
  }
  for (size_t at = 0; at < bytes.size(); at += record) {
    const int label = bytes[at + layout.labels - 1];
    if (label < layout.classes) continue;
    return DataLossError(path, ": the class at byte ", at + layout.labels - 1, " is ", label,
                         ", and there are ", layout.classes,
                         "; the file is damaged, or data.format is not what it holds");
  }
  return bytes;
}

absl::StatusOr<std::shared_ptr<const Dataset>> Load(const Layout& layout,
                                                    const std::vector<std::string>& names,
                                                    const std::string& folder) {
  std::vector<std::vector<uint8_t>> files;
  for (const std::string& name : names) {
    PSGD_ASSIGN_OR_RETURN(files.emplace_back(),
                          ReadRecords(layout, (fs::path(folder) / name).string()));
  }
  return std::make_shared<CifarDataset>(std::move(files), layout);
}

}  // namespace

absl::StatusOr<TrainAndTest> LoadCifar(CifarKind kind, const std::string& folder) {
  const Layout layout = LayoutOf(kind);
  PSGD_RETURN_IF_ERROR(CheckFilesAreThere(layout, folder));
  TrainAndTest sets;
  PSGD_ASSIGN_OR_RETURN(sets.train, Load(layout, layout.train, folder));
  PSGD_ASSIGN_OR_RETURN(sets.test, Load(layout, layout.test, folder));
  return sets;
}

}  // namespace psgd
