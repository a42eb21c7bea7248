#include "experiment/launch/codec_choices_text.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/units.h"
#include "experiment/record/codec_choices_record.h"
#include "experiment/record/readable.h"

namespace psgd {
namespace {

constexpr size_t kMostRows = 16;

uint64_t LongestPush(const CodecChoices::Tensor& tensor) {
  uint64_t bytes = 0;
  for (const auto& candidate : tensor.candidates()) bytes = std::max(bytes, candidate.bytes());
  return bytes;
}

// The names over all tensors, in the order of their first appearance.
std::vector<std::string> CandidateNames(const CodecChoices& choices) {
  std::vector<std::string> names;
  for (const CodecChoices::Tensor& tensor : choices.tensors()) {
    for (const auto& candidate : tensor.candidates()) {
      if (std::ranges::find(names, candidate.codec()) == names.end()) {
        names.push_back(candidate.codec());
      }
    }
  }
  return names;
}

std::string Milliseconds(const CodecChoices::Candidate& candidate) {
  return absl::StrFormat("%.3f", 1e3 * (candidate.seconds_encode() + candidate.seconds_send() +
                                        candidate.seconds_decode()));
}

std::vector<std::string> Row(const CodecChoices::Tensor& tensor,
                             const std::vector<std::string>& names) {
  std::vector<std::string> row{tensor.parameter(), ChosenCodec(tensor)};
  for (const std::string& name : names) {
    const auto found = std::ranges::find_if(
        tensor.candidates(), [&](const auto& candidate) { return candidate.codec() == name; });
    row.push_back(found == tensor.candidates().end() ? "-" : Milliseconds(*found));
  }
  return row;
}

}  // namespace

std::string CodecChoicesText(const CodecChoices& choices) {
  if (choices.tensors().empty()) return "";
  std::vector<const CodecChoices::Tensor*> tensors;
  for (const CodecChoices::Tensor& tensor : choices.tensors()) tensors.push_back(&tensor);
  std::ranges::stable_sort(tensors,
                           [](const CodecChoices::Tensor* a, const CodecChoices::Tensor* b) {
                             return LongestPush(*a) > LongestPush(*b);
                           });
  const std::vector<std::string> names = CandidateNames(choices);
  std::vector<std::string> header{"tensor", "push"};
  header.insert(header.end(), names.begin(), names.end());
  TextTable table(header);
  std::map<std::string, int> others;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i < kMostRows) {
      table.Add(Row(*tensors[i], names));
    } else {
      ++others[ChosenCodec(*tensors[i])];
    }
  }
  std::string text = absl::StrFormat(
      "\ncodecs of worker %d from step %d on: the link carries %s/s, a round trip takes %.2f ms; "
      "predicted ms a push\n%s",
      choices.worker(), choices.clock() + 1, HumanBytes(choices.bytes_per_second()),
      1e3 * choices.seconds_round_trip(), table.Text());
  if (!others.empty()) {
    absl::StrAppend(&text, "  and ", tensors.size() - kMostRows,
                    " smaller ones: ", absl::StrJoin(others, ", ", absl::PairFormatter(" ")), "\n");
  }
  return text;
}

}  // namespace psgd
