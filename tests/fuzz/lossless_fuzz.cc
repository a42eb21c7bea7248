// Any bytes as a packed payload: they are refused with a reason, or unpack to at most the allowed
// length. Any bytes as a payload: packing and unpacking returns them. An input is u8 planes, u16
// most bytes, then the bytes.
#include <algorithm>

#include "compression/lossless.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input_cursor.h"

namespace psgd::fuzz {
namespace {

Packer* packer = nullptr;

void PackAndUnpack(ByteSpan payload) {
  for (const uint32_t planes : {1, 2, 4}) {
    const PackedPayload packed = packer->PackIn(planes, payload);
    if (packed.planes == 0) continue;
    Require(packed.frame.size() < payload.size(), "packing made it longer");
    const auto unpacked = Unpack(packed.frame, planes, payload.size());
    Require(unpacked.ok(), "what was packed is refused");
    Require(std::ranges::equal(unpacked->span(), payload), "what was packed is something else now");
  }
}

}  // namespace
}  // namespace psgd::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  psgd::fuzz::Require(psgd::fuzz::Variant("lossless", *argc, *argv) == "zstd",
                      "say which, as --lossless=zstd");
  psgd::LosslessConfig config;
  config.mutable_zstd();
  psgd::fuzz::packer = psgd::Packer::Make(config).release();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace psgd::fuzz;
  InputCursor input({data, size});
  const uint32_t planes = input.Take<uint8_t>();
  const size_t most = input.Take<uint16_t>();
  const psgd::ByteSpan came = std::as_bytes(input.TakeBytes(size));
  const auto payload = psgd::Unpack(psgd::Bytes::Unowned(came), planes, most);
  if (payload.ok()) {
    Require(planes == 0 || payload->size() <= most, "the payload is longer than it may be");
  } else {
    Require(!payload.status().message().empty(), "it was refused without a reason");
  }
  PackAndUnpack(came);
  return 0;
}
