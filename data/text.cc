#include "data/text.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "data/byte_pairs.h"
#include "data/text_files.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

constexpr int kByteTokens = 256;  // tokens and classes

// Tokens in memory, with the interface of TextFiles.
struct TokenList {
  using Value = Token;

  std::vector<Token> tokens;

  absl::Status Read(uint64_t offset, std::span<Token> out) const {
    std::copy_n(tokens.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    return absl::OkStatus();
  }
};

// Sequences of the part of a text from `begin` to `end`. `Text`: TextFiles or TokenList.
template <typename Text>
std::shared_ptr<const Dataset> Sequences(std::shared_ptr<const Text> text, uint64_t begin,
                                         uint64_t end, int length, int vocabulary) {
  const auto each = static_cast<size_t>(length);
  const SampleShape shape = {.classes = vocabulary, .length = length, .vocabulary = vocabulary};
  const auto read = [text, begin, each](const SampleKey& key,
                                        const Sample& sample) -> absl::Status {
    std::vector<typename Text::Value> values(each + 1);
    PSGD_RETURN_IF_ERROR(text->Read(begin + key.index * each, values));
    std::copy(values.begin(), values.end() - 1, sample.tokens.begin());
    std::copy(values.begin() + 1, values.end(), sample.labels.begin());
    return absl::OkStatus();
  };
  return std::make_shared<ReadDataset>(end > begin ? (end - begin - 1) / each : 0, shape, read);
}

absl::Status Bad(const std::string& path, absl::string_view problem) {
  return InvalidArgumentError(path, ": ", problem, "; check data.path");
}

absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return std::vector<std::string>{path};
  if (!fs::is_directory(path, error)) return Bad(path, "no such file or folder");
  std::vector<std::string> files;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (it->symlink_status().type() == fs::file_type::regular) files.push_back(it->path().string());
  }
  if (error) return Bad(path, error.message());
  if (files.empty()) return Bad(path, "a folder without files");
  std::sort(files.begin(), files.end());
  return files;
}

TrainAndTest CutBytePairs(absl::string_view train, absl::string_view test, int length,
                          int vocabulary) {
  BytePairs pairs = BytePairs::Learn(std::span(&train, 1), vocabulary);
  const auto encode = [&](absl::string_view text) {
    TokenList list;
    pairs.Encode(text, &list.tokens);
    const size_t size = list.tokens.size();
    return Sequences(std::make_shared<const TokenList>(std::move(list)), 0, size, length,
                     pairs.size());
  };
  TrainAndTest sets{encode(train), encode(test)};
  sets.note = FewerTokensText(vocabulary, pairs.size());
  return sets;
}

}  // namespace

absl::StatusOr<TrainAndTest> LoadText(const DataConfig& config, int vocabulary) {
  const int length = config.text().length();
  const double test_fraction = config.text().test_fraction();
  PSGD_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(config.path()));
  PSGD_ASSIGN_OR_RETURN(const std::shared_ptr<const TextFiles> text,
                        TextFiles::Open(files, kMostTextBytes));
  const uint64_t size = text->size();
  const auto split = static_cast<uint64_t>(static_cast<double>(size) * (1 - test_fraction));
  TrainAndTest sets;
  if (vocabulary == 0) {
    sets.train = Sequences(text, 0, split, length, kByteTokens);
    sets.test = Sequences(text, split, size, length, kByteTokens);
  } else {
    std::vector<uint8_t> bytes(size);
    PSGD_RETURN_IF_ERROR(text->Read(0, bytes));
    const absl::string_view all(reinterpret_cast<const char*>(bytes.data()), size);
    sets = CutBytePairs(all.substr(0, split), all.substr(split), length, vocabulary);
  }
  if (sets.train->size() == 0 || sets.test->size() == 0) {
    return InvalidArgumentError(
        config.path(), ": ", size, " bytes are too few: training and test take at least ",
        length + 1, vocabulary == 0 ? "" : " tokens", " each, and the test is ", test_fraction,
        " of them; use more text, a smaller data.text.length or another data.text.test_fraction");
  }
  return sets;
}

}  // namespace psgd
