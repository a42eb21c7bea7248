// Any bytes as a data-plane message: refused with a reason, or a message that encodes and decodes
// again.
//   u16 end of the first frame, then the message; the target corrects its checksum
#include <cstring>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input_cursor.h"
#include "tests/fuzz/sealed_message.h"

namespace psgd::fuzz {
namespace {

void Reseal(std::vector<std::byte>* bytes) {
  if (bytes->size() < kPreludeBytes) return;
  Checksum checksum;
  checksum.Add(ByteSpan(*bytes).first(kChecksumAt));
  checksum.Add(ByteSpan(*bytes).subspan(kPreludeBytes));
  const uint64_t value = checksum.Value();
  std::memcpy(bytes->data() + kChecksumAt, &value, sizeof value);
}

void Decode(std::span<const Bytes> frames, size_t size) {
  const auto decoded = DecodeMessage(frames, kMostMessageBytes);
  if (!decoded.ok()) {
    Require(!decoded.status().message().empty(), "it was refused without a reason");
    return;
  }
  Require(decoded->PayloadBytes() <= size, "the payloads are longer than the message");
  Require(decoded->payloads.size() == static_cast<size_t>(decoded->header.payload_sizes_size()),
          "payloads are missing");
  const auto encoded = EncodeMessage(*decoded, kMostMessageBytes);
  if (!encoded.ok()) return;  // the encoder's form of the sizes may be longer than the input
  const auto again = DecodeMessage(encoded->frames, kMostMessageBytes);
  Require(again.ok(), "what was encoded cannot be decoded");
  Require(again->payloads.size() == decoded->payloads.size(), "payloads were lost");
  for (size_t i = 0; i < again->payloads.size(); ++i) {
    Require(again->payloads[i].span().size() == decoded->payloads[i].span().size() &&
                ChecksumOf(again->payloads[i].span()) == ChecksumOf(decoded->payloads[i].span()),
            "a payload changed");
  }
}

}  // namespace
}  // namespace psgd::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) { return 0; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace psgd::fuzz;
  InputCursor input({data, size});
  const size_t cut = input.Take<uint16_t>();
  const auto rest = input.TakeBytes(size);
  const auto contents = std::as_bytes(rest);
  std::vector<std::byte> bytes(contents.begin(), contents.end());
  Reseal(&bytes);
  const psgd::Bytes whole = psgd::Bytes::Adopt(std::move(bytes));
  Decode({&whole, 1}, whole.size());
  if (cut < whole.size()) {
    const psgd::Bytes parts[] = {whole.Sub(0, cut), whole.Sub(cut, whole.size() - cut)};
    Decode(parts, whole.size());
  }
  return 0;
}
