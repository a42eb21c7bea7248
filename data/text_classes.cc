#include "data/text_classes.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/folder_names.h"
#include "data/labelled_rows.h"
#include "data/preparation.h"
#include "data/row_targets.h"
#include "data/target_reader.h"
#include "data/text_files.h"
#include "data/token_rows.h"

namespace psgd {
namespace {

struct Texts {
  std::vector<std::string> texts;
  RowTargets targets;       // by text
  size_t training = 0;      // texts that come first; the others are the test
  std::string column = {};  // of a table; empty: texts are files
};

struct CodedTexts {
  TokenRows rows;
  RowTargets targets;
};

// The texts from `begin` to `end` as samples.
std::shared_ptr<const Dataset> TextSamples(std::shared_ptr<const CodedTexts> texts, size_t begin,
                                           size_t end, const SampleShape& shape) {
  const auto read = [texts, begin](const SampleKey& key, const Sample& sample) {
    texts->rows.Read(begin + key.index, sample.tokens);
    texts->targets.Read(begin + key.index, sample);
    return absl::OkStatus();
  };
  return std::make_shared<ReadDataset>(end - begin, shape, read);
}

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

// The files of a folder's classes, by class.
struct ClassFiles {
  std::vector<std::string> classes;
  std::vector<std::vector<std::string>> files;
};

absl::StatusOr<ClassFiles> ListFolder(const std::string& folder) {
  ClassFiles listed;
  PSGD_ASSIGN_OR_RETURN(listed.classes, ClassFolders(folder));
  for (const std::string& name : listed.classes) {
    const std::string path = absl::StrCat(folder, "/", name);
    PSGD_ASSIGN_OR_RETURN(std::vector<std::string> files, FileNames(path, {}));
    if (files.empty()) {
      return InvalidArgumentError(path, ": holds no file; add some, or remove the folder");
    }
    for (std::string& file : files) file = absl::StrCat(path, "/", file);
    listed.files.push_back(std::move(files));
  }
  return listed;
}

// Reads the texts of folders.
class FolderReader {
 public:
  // Adds the files `part` of each class in turn, where part(n) is a range of n files.
  template <typename Part>
  absl::Status Add(const ClassFiles& listed, Part part) {
    size_t most = 0;
    for (const auto& files : listed.files) most = std::max(most, files.size());
    for (size_t turn = 0; turn < most; ++turn) {
      for (size_t c = 0; c < listed.classes.size(); ++c) {
        const auto [begin, end] = part(listed.files[c].size());
        if (begin + turn >= end) continue;
        PSGD_RETURN_IF_ERROR(AddFile(listed.files[c][begin + turn], listed.classes[c]));
      }
    }
    return absl::OkStatus();
  }

  size_t texts() const { return texts_.size(); }

  absl::StatusOr<Texts> Finish(size_t training) && {
    const auto place = [this](size_t text) { return paths_[text]; };
    PSGD_ASSIGN_OR_RETURN(RowTargets targets, std::move(targets_).Finish(training, place));
    return Texts{std::move(texts_), std::move(targets), training};
  }

 private:
  absl::Status AddFile(const std::string& path, const std::string& name) {
    PSGD_ASSIGN_OR_RETURN(std::string text, ReadTextFile(path, kMostTextBytes - bytes_));
    bytes_ += text.size();
    texts_.push_back(std::move(text));
    paths_.push_back(path);
    return Annotate(targets_.Add(name), path);
  }

  std::vector<std::string> texts_, paths_;
  TargetReader targets_{Targets::Kind::kNone, {}};
  uint64_t bytes_ = 0;
};

absl::StatusOr<Texts> ReadFolder(const DataConfig& config) {
  if (!config.target().empty() || !config.columns().empty()) {
    return InvalidArgumentError(
        config.path(),
        " is a folder, whose folders are the classes: leave data.target and data.columns out");
  }
  if (KindOf(config.target_kind()) != Targets::Kind::kNone) {
    return InvalidArgumentError(config.path(),
                                " is a folder, whose folders are classes: set model.loss to "
                                "cross_entropy; for labels and numbers use a table of texts");
  }
  PSGD_ASSIGN_OR_RETURN(const ClassFiles listed, ListFolder(config.path()));
  if (listed.classes.size() < 2) {
    return InvalidArgumentError(config.path(),
                                " has one folder; classes are at least 2, each in its own folder");
  }
  // Each class trains with a text at least.
  const auto training_of = [&](size_t files) {
    const double training = static_cast<double>(files) * (1 - config.table().test_fraction());
    return std::max<size_t>(1, static_cast<size_t>(training));
  };
  const auto whole = [](size_t files) { return std::pair<size_t, size_t>(0, files); };
  const bool split = config.table().test().empty();
  FolderReader reader;
  PSGD_RETURN_IF_ERROR(reader.Add(listed, [&](size_t files) {
    return split ? std::pair<size_t, size_t>(0, training_of(files)) : whole(files);
  }));
  const size_t training = reader.texts();
  if (split) {
    PSGD_RETURN_IF_ERROR(reader.Add(listed, [&](size_t files) {
      return std::pair<size_t, size_t>(training_of(files), files);
    }));
    if (reader.texts() == training) {
      return InvalidArgumentError(config.path(), ": ", training, " texts are too few to keep ",
                                  config.table().test_fraction(),
                                  " of each class for the test; name a test folder in "
                                  "data.table.test");
    }
  } else {
    PSGD_ASSIGN_OR_RETURN(const ClassFiles test, ListFolder(config.table().test()));
    PSGD_RETURN_IF_ERROR(reader.Add(test, whole));
  }
  auto texts = std::move(reader).Finish(training);
  if (!texts.ok()) return Annotate(texts.status(), config.path());
  return texts;
}

absl::StatusOr<Texts> ReadTable(const DataConfig& config) {
  if (config.columns().size() > 1) {
    return InvalidArgumentError("data.columns names ", config.columns().size(),
                                " columns, and a sample has one text; name the one with the text");
  }
  PSGD_ASSIGN_OR_RETURN(
      LabelledRows rows,
      ReadLabelledRows(
          {.files = {config.path(), config.table().test(), config.table().test_fraction()},
           .target = {config.target().begin(), config.target().end()},
           .kind = config.target_kind(),
           .column = config.columns().empty() ? "" : config.columns(0)}));
  return Texts{std::move(rows.fields), std::move(rows.targets), rows.training,
               std::move(rows.column)};
}

}  // namespace

absl::StatusOr<TrainAndTest> LoadTextClasses(const DataConfig& config, int vocabulary) {
  const int length = config.text().length();
  PSGD_ASSIGN_OR_RETURN(Texts read,
                        IsFolder(config.path()) ? ReadFolder(config) : ReadTable(config));
  const std::vector<absl::string_view> training(
      read.texts.begin(), read.texts.begin() + static_cast<ptrdiff_t>(read.training));
  BytePairs encoder = LearnTokens(training, vocabulary);
  Preparation preparation;
  preparation.set_text_column(read.column);
  preparation.mutable_merges()->Add(encoder.merges().begin(), encoder.merges().end());
  RecordClasses(read.targets.class_names, &preparation);
  std::string note = TargetsNote(config.path(), read.targets, read.training,
                                 /*split=*/config.table().test().empty());
  AddNote(FewerTokensText(vocabulary, VocabularyOf(encoder)), &note);
  auto coded = std::make_shared<CodedTexts>();
  for (const std::string& text : read.texts) {
    coded->rows.Add(text, length, &encoder);
  }
  AddNote(CutText(coded->rows.cut(), read.texts.size(), "text.length", length), &note);
  coded->targets = std::move(read.targets);
  const SampleShape shape = {.classes = coded->targets.classes,
                             .length = length,
                             .source = length,
                             .vocabulary = VocabularyOf(encoder),
                             .targets = static_cast<int>(coded->targets.targets.names.size())};
  return TrainAndTest{TextSamples(coded, 0, read.training, shape),
                      TextSamples(coded, read.training, read.texts.size(), shape),
                      coded->targets.targets, std::move(preparation), std::move(note)};
}

}  // namespace psgd
