#include "common/program_state.h"

#include <algorithm>

namespace psgd {
namespace {

constexpr size_t kHead = 2 * sizeof(uint64_t);
constexpr size_t kMostParts =
    (kHead + kMostProgramState + kProgramPartBytes - 1) / kProgramPartBytes;

}  // namespace

bool FitsProgramPart(uint32_t id, size_t bytes) {
  return IsProgramPart(id) && id - kProgramState < kMostParts && bytes > 0 &&
         bytes <= kProgramPartBytes;
}

std::vector<std::pair<uint32_t, Bytes>> SplitProgramState(const Bytes& state) {
  const size_t in_first = std::min(state.size(), kProgramPartBytes - kHead);
  std::vector<std::byte> first(kHead + in_first);
  StoreField<uint64_t>(state.size(), first.data());
  StoreField<uint64_t>(ChecksumOf(state.span()), first.data() + sizeof(uint64_t));
  std::ranges::copy(state.span().first(in_first), first.begin() + kHead);
  uint32_t id = kProgramState;
  std::vector<std::pair<uint32_t, Bytes>> parts;
  parts.emplace_back(id++, Bytes::Adopt(std::move(first)));
  for (size_t at = in_first; at < state.size(); at += kProgramPartBytes) {
    parts.emplace_back(id++, state.Sub(at, std::min(kProgramPartBytes, state.size() - at)));
  }
  return parts;
}

std::optional<std::vector<std::byte>> JoinProgramState(const std::map<uint32_t, Bytes>& saved) {
  auto part = saved.find(kProgramState);
  if (part == saved.end() || part->second.size() < kHead) return std::nullopt;
  const auto bytes = LoadField<uint64_t>(part->second.data());
  const auto checksum = LoadField<uint64_t>(part->second.data() + sizeof(uint64_t));
  if (bytes > kMostProgramState) return std::nullopt;
  std::vector<std::byte> state;
  ByteSpan stretch = part->second.span().subspan(kHead);
  for (uint32_t next = kProgramState + 1;; ++next) {
    state.insert(state.end(), stretch.begin(), stretch.end());
    if (state.size() >= bytes) break;
    ++part;
    if (part == saved.end() || part->first != next) return std::nullopt;
    stretch = part->second.span();
  }
  if (state.size() != bytes || ChecksumOf(state) != checksum) return std::nullopt;
  return state;
}

}  // namespace psgd
