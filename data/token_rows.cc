#include "data/token_rows.h"

#include <algorithm>

namespace psgd {

absl::StatusOr<BytePairs> LearnTokens(std::span<const absl::string_view> texts, int vocabulary) {
  if (vocabulary == 0) return BytePairs();
  return BytePairs::Learn(texts, vocabulary - kSpecialTokens, kSpecialTokens);
}

void TokenRows::Read(size_t index, std::span<int32_t> out) const {
  const std::span<const Token> row = Row(index);
  std::ranges::copy(row, out.begin());
  std::ranges::fill(out.subspan(row.size()), kPaddingToken);
}

void TokenRows::Add(absl::string_view text, int length, BytePairs* encoder) {
  const size_t begin = tokens_.size(), most = begin + static_cast<size_t>(length);
  encoder->Encode(text, &tokens_);
  tokens_.resize(std::min(tokens_.size(), most));
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

}  // namespace psgd
