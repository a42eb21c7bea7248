#include "data/translation.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "data/lines.h"
#include "data/token_rows.h"

namespace psgd {
namespace {

constexpr size_t kMostPairs = size_t{1} << 28;

struct TextPair {
  std::string source;
  std::string target;
};

absl::StatusOr<std::vector<TextPair>> ReadPairs(const std::string& path) {
  std::vector<TextPair> pairs;
  PSGD_RETURN_IF_ERROR(ForEachLine(path, [&](absl::string_view line) -> absl::Status {
    line = absl::StripTrailingAsciiWhitespace(line);
    const size_t tab = line.find('\t');
    const absl::string_view source = line.substr(0, tab);
    absl::string_view target = tab == line.npos ? "" : line.substr(tab + 1);
    target = target.substr(0, target.find('\t'));
    if (source.empty() || target.empty()) {
      return absl::InvalidArgumentError("not a source and a target with a tab between");
    }
    if (pairs.size() == kMostPairs) {
      return absl::InvalidArgumentError("more than 2^28 pairs; use a part of the file");
    }
    pairs.push_back({std::string(source), std::string(target)});
    return absl::OkStatus();
  }));
  return pairs;
}

// `cut`: sources and targets that are longer than their places; the new ones are added.
std::shared_ptr<const Dataset> Encoded(std::span<const TextPair> pairs, BytePairs* encoder,
                                       const TranslationConfig& config,
                                       std::pair<size_t, size_t>* cut) {
  TokenRows sources, targets;
  for (const TextPair& pair : pairs) {
    sources.Add(pair.source, config.source_length(), encoder);
    targets.AddWithEnd(pair.target, config.target_length(), encoder);
  }
  cut->first += sources.cut();
  cut->second += targets.cut();
  const int source_length = config.source_length(), vocabulary = VocabularyOf(*encoder);
  const SampleShape shape = {.classes = vocabulary,
                             .length = source_length + config.target_length(),
                             .source = source_length,
                             .vocabulary = vocabulary};
  const size_t size = sources.size();
  return std::make_shared<ReadDataset>(
      size, shape,
      [source_length, sources = std::move(sources), targets = std::move(targets)](
          const SampleKey& key, const Sample& sample) {
        const std::span source = sources.Row(key.index), target = targets.Row(key.index);
        std::ranges::fill(sample.tokens, kPaddingToken);
        std::ranges::fill(sample.labels, -1);
        std::copy(source.begin(), source.end(), sample.tokens.begin());
        std::copy(target.begin(), target.end(), sample.labels.begin());
        sample.tokens[source_length] = kBeginToken;
        std::copy(target.begin(), target.end() - 1, sample.tokens.begin() + source_length + 1);
        return absl::OkStatus();
      });
}

BytePairs MakeEncoder(std::span<const TextPair> train, int vocabulary) {
  std::vector<absl::string_view> texts;
  for (const TextPair& pair : train) {
    texts.push_back(pair.source);
    texts.push_back(pair.target);
  }
  return LearnTokens(texts, vocabulary);
}

}  // namespace

absl::StatusOr<TrainAndTest> LoadTranslation(const DataConfig& data, int vocabulary) {
  const TranslationConfig& config = data.translation();
  PSGD_ASSIGN_OR_RETURN(const std::vector<TextPair> pairs, ReadPairs(data.path()));
  const auto split =
      static_cast<size_t>(static_cast<double>(pairs.size()) * (1 - config.test_fraction()));
  const std::span<const TextPair> train = std::span(pairs).first(split);
  const std::span<const TextPair> test = std::span(pairs).subspan(split);
  if (train.empty() || test.empty()) {
    return InvalidArgumentError(
        data.path(), ": ", pairs.size(), " pairs are too few for training and a test of ",
        config.test_fraction(),
        " of them; use more lines or another data.translation.test_fraction");
  }
  BytePairs encoder = MakeEncoder(train, vocabulary);
  std::pair<size_t, size_t> cut;
  TrainAndTest sets;
  sets.train = Encoded(train, &encoder, config, &cut);
  sets.test = Encoded(test, &encoder, config, &cut);
  AddNote(FewerTokensText(vocabulary, VocabularyOf(encoder)), &sets.note);
  AddNote(CutText(cut.first, pairs.size(), "translation.source_length", config.source_length()),
          &sets.note);
  AddNote(CutText(cut.second, pairs.size(), "translation.target_length", config.target_length()),
          &sets.note);
  return sets;
}

}  // namespace psgd
