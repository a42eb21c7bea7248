#include "data/open_sequences.h"

#include "absl/strings/str_cat.h"
#include "data/text.h"
#include "data/translation.h"

namespace psgd {
namespace {

absl::Status CheckFraction(absl::string_view key, double fraction) {
  if (fraction > 0 && fraction < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data.", key, " is ", fraction, "; it must be between 0 and 1"));
}

// Returns 0 for bytes.
absl::StatusOr<int> Vocabulary(const DataConfig& config) {
  if (config.tokens() == DataConfig::BYTES) return 0;
  constexpr int kLeast = 260, kMost = 65536;  // a merge beside bytes and special tokens; 16 bits
  if (config.vocabulary() >= kLeast && config.vocabulary() <= kMost) return config.vocabulary();
  return absl::InvalidArgumentError(absl::StrCat("data.vocabulary is ", config.vocabulary(),
                                                 "; it must be from ", kLeast, " to ", kMost));
}

absl::StatusOr<TokenSets> OpenText(const DataConfig& config) {
  PSGD_RETURN_IF_ERROR(CheckFraction("text.test_fraction", config.text().test_fraction()));
  PSGD_ASSIGN_OR_RETURN(const int vocabulary, Vocabulary(config));
  return LoadText({.path = config.path(),
                   .length = config.text().length(),
                   .test_fraction = config.text().test_fraction(),
                   .vocabulary = vocabulary});
}

absl::StatusOr<TokenSets> OpenTranslation(const DataConfig& config) {
  const TranslationConfig& pairs = config.translation();
  PSGD_RETURN_IF_ERROR(CheckFraction("translation.test_fraction", pairs.test_fraction()));
  PSGD_ASSIGN_OR_RETURN(const int vocabulary, Vocabulary(config));
  return LoadTranslation({.path = config.path(),
                          .source_length = pairs.source_length(),
                          .target_length = pairs.target_length(),
                          .test_fraction = pairs.test_fraction(),
                          .vocabulary = vocabulary});
}

}  // namespace

bool IsSequenceFormat(DataConfig::Format format) {
  return format == DataConfig::TEXT || format == DataConfig::TRANSLATION;
}

absl::StatusOr<TokenSets> OpenSequences(const DataConfig& config) {
  const bool text = config.format() == DataConfig::TEXT;
  if (config.path().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.path is not set, and format ", text ? "text" : "translation",
        " reads from there; set it to a file", text ? ", or to a folder of files" : " of pairs"));
  }
  return text ? OpenText(config) : OpenTranslation(config);
}

}  // namespace psgd
