#include "data/token_rows.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace psgd {

BytePairs LearnTokens(std::span<const absl::string_view> texts, int vocabulary) {
  if (vocabulary == 0) return BytePairs();
  return BytePairs::Learn(texts, vocabulary - kSpecialTokens);
}

void TokenRows::Read(size_t index, std::span<int32_t> out) const {
  const std::span<const Token> row = Row(index);
  std::ranges::copy(row, out.begin());
  std::ranges::fill(out.subspan(row.size()), kPaddingToken);
}

void TokenRows::Add(absl::string_view text, int length, BytePairs* encoder) {
  const size_t begin = tokens_.size(), most = begin + static_cast<size_t>(length);
  encoder->Encode(text, &tokens_);
  if (tokens_.size() > most) {
    tokens_.resize(most);
    ++cut_;
  }
  for (size_t i = begin; i < tokens_.size(); ++i) {
    tokens_[i] = static_cast<Token>(tokens_[i] + kSpecialTokens);
  }
  ends_.push_back(tokens_.size());
}

void TokenRows::AddWithEnd(absl::string_view text, int length, BytePairs* encoder) {
  Add(text, length, encoder);
  if (Row(size() - 1).size() == static_cast<size_t>(length)) return;
  tokens_.push_back(kEndToken);
  ends_.back() = tokens_.size();
}

std::string CutText(size_t cut, size_t texts, absl::string_view key, int length) {
  if (cut == 0) return "";
  return absl::StrFormat(
      "%d of %d texts (%.0f %%) are longer than data.%s, %d tokens, and their ends are left out; "
      "raise it if these matter",
      cut, texts, 100.0 * static_cast<double>(cut) / static_cast<double>(texts), key, length);
}

}  // namespace psgd
