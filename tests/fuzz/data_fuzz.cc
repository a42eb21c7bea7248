// Any bytes as the files of a dataset. They are refused with an error that names a file, or give
// samples within the dataset's own limits. --data=idx, tar, libsvm, ...: data_files.h has the
// formats, and cuts an input into files.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/open_data.h"
#include "tests/fuzz/data_files.h"
#include "tests/fuzz/input_cursor.h"
#include "tests/fuzz/memory_file.h"

namespace psgd::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostSamples = 4;  // samples read from a dataset
const DataFormat* chosen = nullptr;
std::vector<std::unique_ptr<MemoryFile>>* files = nullptr;
DataConfig* config = nullptr;

// A folder whose files are in memory.
std::string* folder = nullptr;
void RemoveFolder() {
  std::error_code ignored;
  fs::remove_all(*folder, ignored);
}
void MakeFolder() {
  folder = new std::string(fs::temp_directory_path() / "psgd-fuzz-XXXXXX");
  Require(mkdtemp(folder->data()) != nullptr, "there is no room for a folder");
  std::atexit(RemoveFolder);
  for (size_t i = 0; i < chosen->files.size(); ++i) {
    for (const std::string& name : chosen->files[i]) {
      const fs::path path = fs::path(*folder) / name;
      fs::create_directories(path.parent_path());
      fs::create_symlink((*files)[i]->path(), path);
    }
  }
}

void Prepare() {
  files = new std::vector<std::unique_ptr<MemoryFile>>();
  for (size_t i = 0; i < chosen->files.size(); ++i)
    files->push_back(std::make_unique<MemoryFile>());
  const bool alone = chosen->files[0].empty();
  if (!alone) MakeFolder();
  config = new DataConfig();
  config->set_format(chosen->format);
  config->set_path(alone ? (*files)[0]->path() : *folder);
  config->set_batch(1);
  config->mutable_images()->set_size(8);
  config->mutable_images()->set_classes(3);
  config->mutable_table()->set_test(config->path());
  config->mutable_text()->set_length(4);
  config->mutable_text()->set_test_fraction(0.5);
  config->mutable_translation()->set_source_length(6);
  config->mutable_translation()->set_target_length(5);
  config->mutable_translation()->set_test_fraction(0.5);
  config->mutable_ratings()->set_test_negatives(3);
  if (!chosen->labels.empty()) {
    config->mutable_images()->set_labels(chosen->labels);
    config->mutable_table()->clear_test();
    config->mutable_table()->set_test_fraction(0.5);
  }
  const bool folders = chosen->format == DataConfig::TEXT_CLASSES && !alone;
  if (!folders) config->add_target(std::string("y"));
  config->set_target_kind(chosen->target_kind);
  if (chosen->byte_pairs) config->set_tokens(DataConfig::BPE);
  if (chosen->byte_pairs) config->set_vocabulary(262);
}

void CheckBelow(std::span<const int32_t> values, int least, int end) {
  for (const int32_t value : values) Require(value >= least && value < end, "it is out of range");
}

void ReadSample(const SampleSource& source, uint64_t index) {
  const SampleShape shape = source.shape();
  std::vector<float> values(shape.elements()), targets(static_cast<size_t>(shape.targets));
  std::vector<int32_t> tokens(shape.elements()), labels(shape.labels());
  const SampleKey key{.epoch = 1, .index = index};
  if (shape.IsImage()) tokens.clear();
  if (shape.IsSequence()) values.clear();
  const absl::Status read = source.Read(key, {values, tokens, labels, targets});
  Require(read.ok() || !read.message().empty(), "it was refused without a reason");
  Require(read.ok() || shape.IsImage(), "a sample that was there is not");
  if (!read.ok()) return;
  CheckBelow(tokens, 0, shape.vocabulary);
  CheckBelow(labels, -1, shape.classes);
  for (const float value : values) Require(std::isfinite(value), "a value is not finite");
  for (const float target : targets) Require(std::isfinite(target), "a target is not finite");
}

void ReadSome(const SampleSource& source) {
  const size_t size = source.size();
  Require(size > 0, "a set without samples");
  for (size_t i = 0; i < std::min(size, kMostSamples); ++i) {
    ReadSample(source, i * (size - 1) / std::max<size_t>(1, kMostSamples - 1));
  }
}

}  // namespace
}  // namespace psgd::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace psgd::fuzz;
  const std::string name = Variant("data", *argc, *argv);
  for (const DataFormat& format : DataFormats()) {
    if (format.name == name) chosen = &format;
  }
  Require(chosen != nullptr, "say which format, as --data=idx");
  Prepare();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace psgd::fuzz;
  InputCursor input({data, size});
  for (size_t i = 0; i < files->size(); ++i) {
    const size_t length = i + 1 < files->size() ? input.Take<uint16_t>() : size;
    (*files)[i]->Set(input.TakeBytes(length));
  }
  const auto sets = psgd::OpenData(*config, /*seed=*/1);
  if (!sets.ok()) {
    Require(!sets.status().message().empty(), "it was refused without a reason");
    return 0;
  }
  ReadSome(*sets->train);
  ReadSome(*sets->test);
  return 0;
}
