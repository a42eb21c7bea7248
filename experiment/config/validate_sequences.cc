#include "experiment/config/validate_sequences.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

bool IsDefault(const TranslationConfig& translation) {
  const TranslationConfig& off = TranslationConfig::default_instance();
  return translation.source_length() == off.source_length() &&
         translation.target_length() == off.target_length() &&
         translation.test_fraction() == off.test_fraction();
}

}  // namespace

void CheckSequenceKeys(const DataConfig& data, std::vector<std::string>* problems) {
  const bool text = data.format() == DataConfig::TEXT;
  const bool translation = data.format() == DataConfig::TRANSLATION;
  const std::string format = absl::AsciiStrToLower(DataConfig::Format_Name(data.format()));
  if (text && data.path().empty()) {
    problems->push_back(
        "data.path is missing: format text needs a file, or a folder of files, to read");
  }
  if (translation && data.path().empty()) {
    problems->push_back(
        "data.path is missing: format translation needs a file of lines of a source, a tab and its "
        "target");
  }
  if (!translation && !IsDefault(data.translation())) {
    problems->push_back(absl::StrCat("data.translation does nothing with format ", format,
                                     ": leave it out, or set data.format to translation"));
  }
  if (data.tokens() != DataConfig::BYTES && !text && !translation) {
    problems->push_back(absl::StrCat("data.tokens does nothing with format ", format,
                                     ": leave it out, or set data.format to text or translation"));
  }
  if (data.tokens() == DataConfig::BYTES &&
      data.vocabulary() != DataConfig::default_instance().vocabulary()) {
    problems->push_back(
        "data.vocabulary does nothing with bytes, of which there are 256: leave it out, or set "
        "data.tokens to bpe");
  }
}

}  // namespace psgd
