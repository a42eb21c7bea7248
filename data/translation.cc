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

// Pairs in memory. Thread-safe: immutable.
class TranslationDataset final : public Dataset {
 public:
  // REQUIRES: no row of `sources` is longer than source_length, and no row of `targets` (with its
  // end token) is longer than target_length.
  TranslationDataset(TokenRows sources, TokenRows targets, int vocabulary,
                     const TranslationOptions& options)
      : sources_(std::move(sources)),
        targets_(std::move(targets)),
        vocabulary_(vocabulary),
        source_length_(options.source_length),
        target_length_(options.target_length) {}

  size_t size() const override { return sources_.size(); }
  SampleShape shape() const override {
    return {.classes = vocabulary_,
            .length = source_length_ + target_length_,
            .source = source_length_,
            .vocabulary = vocabulary_};
  }
  absl::Status Read(const SampleKey& key, const Sample& sample) const override {
    const std::span source = sources_.Row(key.index), target = targets_.Row(key.index);
    std::ranges::fill(sample.tokens, kPaddingToken);
    std::ranges::fill(sample.labels, -1);
    std::copy(source.begin(), source.end(), sample.tokens.begin());
    std::copy(target.begin(), target.end(), sample.labels.begin());
    sample.tokens[source_length_] = kBeginToken;
    std::copy(target.begin(), target.end() - 1, sample.tokens.begin() + source_length_ + 1);
    return absl::OkStatus();
  }

 private:
  const TokenRows sources_;
  const TokenRows targets_;
  const int vocabulary_;
  const int source_length_;
  const int target_length_;
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
                                       const TranslationOptions& options,
                                       std::pair<size_t, size_t>* cut) {
  TokenRows sources, targets;
  for (const TextPair& pair : pairs) {
    sources.Add(pair.source, options.source_length, encoder);
    targets.AddWithEnd(pair.target, options.target_length, encoder);
  }
  cut->first += sources.cut();
  cut->second += targets.cut();
  return std::make_shared<TranslationDataset>(std::move(sources), std::move(targets),
                                              VocabularyOf(*encoder), options);
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

absl::StatusOr<TrainAndTest> LoadTranslation(const TranslationOptions& options) {
  PSGD_ASSIGN_OR_RETURN(const std::vector<TextPair> pairs, ReadPairs(options.path));
  const auto split =
      static_cast<size_t>(static_cast<double>(pairs.size()) * (1 - options.test_fraction));
  const std::span<const TextPair> train = std::span(pairs).first(split);
  const std::span<const TextPair> test = std::span(pairs).subspan(split);
  if (train.empty() || test.empty()) {
    return InvalidArgumentError(
        options.path, ": ", pairs.size(), " pairs are too few for training and a test of ",
        options.test_fraction,
        " of them; use more lines or another data.translation.test_fraction");
  }
  BytePairs encoder = MakeEncoder(train, options.vocabulary);
  std::pair<size_t, size_t> cut;
  TrainAndTest sets;
  sets.train = Encoded(train, &encoder, options, &cut);
  sets.test = Encoded(test, &encoder, options, &cut);
  AddNote(FewerTokensText(options.vocabulary, VocabularyOf(encoder)), &sets.note);
  AddNote(CutText(cut.first, pairs.size(), "translation.source_length", options.source_length),
          &sets.note);
  AddNote(CutText(cut.second, pairs.size(), "translation.target_length", options.target_length),
          &sets.note);
  return sets;
}

}  // namespace psgd
