#include "server/durability/checkpoint_format.h"

#include "absl/strings/str_cat.h"
#include "common/program_state.h"

namespace psgd {
namespace {

void PutBigEndian(uint32_t value, char* out) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<char>(value >> (24 - 8 * i));
}

uint32_t GetBigEndian(const char* in) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(in[i]);
  return value;
}

}  // namespace

std::array<char, kValueKeySize> EncodeKey(const ValueKey& key) {
  std::array<char, kValueKeySize> encoded;
  encoded[0] = static_cast<char>(key.kind);
  PutBigEndian(key.first, &encoded[1]);
  PutBigEndian(key.second, &encoded[5]);
  return encoded;
}

absl::StatusOr<ValueKey> DecodeKey(absl::string_view encoded) {
  if (encoded.size() != kValueKeySize) {
    return DataLossError("a key has ", encoded.size(), " bytes");
  }
  const auto kind = static_cast<ValueKind>(encoded[0]);
  switch (kind) {
    case ValueKind::kSlice:
    case ValueKind::kWeights:
    case ValueKind::kState:
    case ValueKind::kResidual:
    case ValueKind::kUnused:
    case ValueKind::kShown:
      return ValueKey{kind, GetBigEndian(&encoded[1]), GetBigEndian(&encoded[5])};
  }
  return DataLossError("a key is of unknown kind ", static_cast<uint8_t>(encoded[0]));
}

uint64_t EncodeValue(absl::string_view encoded_key, ByteSpan contents, std::string* value) {
  BeginStored(kCheckpointFormatVersion, contents.size(), value);
  value->append(reinterpret_cast<const char*>(contents.data()), contents.size());
  return EndStored(encoded_key, value);
}

absl::StatusOr<StoredValue> DecodeValue(absl::string_view encoded_key, absl::string_view value) {
  return OpenStored(kCheckpointFormatVersion, encoded_key, value);
}

std::string Describe(const ValueKey& key) {
  switch (key.kind) {
    case ValueKind::kSlice:
      return absl::StrCat("record of slice ", key.first);
    case ValueKind::kWeights:
      return absl::StrCat("weights of slice ", key.first);
    case ValueKind::kState:
      return absl::StrCat("optimizer state ", key.second, " of slice ", key.first);
    case ValueKind::kResidual:
      if (IsProgramPart(key.second)) {
        return absl::StrCat("part ", key.second - kProgramState, " of the state of worker ",
                            key.first, "'s program");
      }
      return absl::StrCat("residual of worker ", key.first, " for slice ", key.second);
    case ValueKind::kUnused:
      return "a value that earlier versions wrote";
    case ValueKind::kShown:
      return absl::StrCat("weights of slice ", key.second, " that worker ", key.first, " was sent");
  }
  return "value of unknown kind";
}

}  // namespace psgd
